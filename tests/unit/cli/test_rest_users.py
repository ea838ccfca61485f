"""`ottla secure rest-user`: the file with users of REST APIs."""

import pytest

from ottla.secure.rest_users import delete_user, set_password
from ottla_core.rest.password_hashes import parse_users
from ottla_operations.errors import OperationError


def test_users_are_added_changed_and_deleted_and_other_lines_stay(tmp_path):
    file = tmp_path / "users"
    set_password(file, "ann", lambda: "first")
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("# who may\n" + file.read_text())
    set_password(file, "bob", lambda: "bobs")
    set_password(file, "ann", lambda: "second")
    assert file.read_text().startswith("# who may\nann:scrypt$")
    users = parse_users(file.read_text())
    assert users["ann"].matches("second")
    assert not users["ann"].matches("first")
    delete_user(file, "ann")
    assert list(parse_users(file.read_text())) == ["bob"]
    assert [each.name for each in tmp_path.iterdir()] == ["users"]


def test_a_file_that_is_none_of_users_stays_as_it_is(tmp_path):
    file = tmp_path / "users"
    file.write_text("ann=plain\n")
    with pytest.raises(OperationError, match="line 1"):
        set_password(file, "bob", lambda: "x")
    assert file.read_text() == "ann=plain\n"
    with pytest.raises(OperationError, match="no user carl"):
        delete_user(tmp_path / "none", "carl")
    with pytest.raises(OperationError, match="colons"):
        set_password(tmp_path / "none", "a:b", lambda: "x")
