"""Users and hashed passwords of REST APIs."""

import pytest

from ottla_core.rest.password_hashes import hash_of, parse_users

SALT = b"s" * 16


def test_a_hash_comes_back_from_its_file_and_knows_its_password_only():
    made = hash_of("open sesame", SALT)
    users = parse_users(f"# who may\n\nann:{made}\n")
    assert users["ann"] == made
    assert users["ann"].matches("open sesame")
    assert not users["ann"].matches("open sesam")
    assert "c2FsdA" not in repr(made)
    assert repr(made) == "PasswordHash(cost=16384)"


@pytest.mark.parametrize(
    "line",
    [
        "ann:secret",
        "ann",
        ":x",
        "ann:scrypt$3$c2FsdA==$a2V5",
        "ann:scrypt$1048576$c2FsdA==$a2V5",
        "ann:md5$2$cw==$aw==",
    ],
)
def test_a_line_that_is_no_user_is_named_by_its_number_only(line):
    with pytest.raises(ValueError, match="line 2") as refused:
        parse_users(f"\n{line}\n")
    assert "secret" not in str(refused.value)
