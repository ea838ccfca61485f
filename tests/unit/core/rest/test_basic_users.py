"""Users of basic authentication, whose file changes."""

import pytest

from ottla_core.errors import ConfigurationError
from ottla_core.rest.access_settings import RestAccess
from ottla_core.rest.authentication import Access
from ottla_core.rest.basic_users import BasicUsers
from ottla_core.rest.password_hashes import PasswordHash, hash_of
from ottla_core.rest.worker_signatures import SharedKey


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "users"
    path.write_text(f"ann:{hash_of('right', b'1' * 16)}\n")
    return path


async def test_a_password_that_is_replaced_while_it_is_checked_opens_nothing(file, monkeypatch):
    users, matches = BasicUsers(file), PasswordHash.matches

    def replaced_meanwhile(known, password):
        file.write_text(f"ann:{hash_of('another one', b'2' * 16)}\n")
        return matches(known, password)

    monkeypatch.setattr(PasswordHash, "matches", replaced_meanwhile)
    assert not await users.check("ann", "right")
    assert not await users.check("ann", "right")


async def test_a_right_password_is_hashed_once_and_a_wrong_one_each_time(file, monkeypatch):
    users, matches, hashed = BasicUsers(file), PasswordHash.matches, []
    monkeypatch.setattr(
        PasswordHash, "matches", lambda known, password: hashed.append(password) or matches(known, password)
    )
    for _ in range(2):
        assert await users.check("ann", "right")
        assert not await users.check("ann", "wrong")
        assert not await users.check("eve", "right")
    assert hashed == ["right", "wrong", "right", "wrong", "right"], "of one who is unknown, too"


def test_a_file_that_cannot_be_used_is_told_when_the_worker_starts(tmp_path, file):
    file.write_text("ann=a-marker-that-no-message-has")
    for path in (file, tmp_path / "none"):
        with pytest.raises(ConfigurationError, match=r"rest\.basic\.users\.location") as refused:
            Access(RestAccess(administrators=frozenset(), users=path), SharedKey(lambda: None), own_url="")
        assert "marker" not in str(refused.value)
