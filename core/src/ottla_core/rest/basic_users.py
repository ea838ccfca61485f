"""Users of basic authentication (RFC 7617): a file of salted hashes, read again when it changes.

A hash takes 50 ms, so a password that was right is remembered, as a digest with a key of this process, as long as the
user's hash is the same. Hashes are made in threads, few at a time.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog

from ottla_core.errors import ConfigurationError
from ottla_core.reloaded_files import ReloadedFiles
from ottla_core.rest.password_hashes import SALT_BYTES, PasswordHash, hash_of, parse_users

CHECKS_AT_ONCE: Final = 2
CHECKS_WAITING_MAX: Final = 50
REMEMBERED_MAX: Final = 1000
FILE_BYTES_MAX: Final = 4 * 1024 * 1024
PASSWORD_CHARACTERS_MAX: Final = 1024

log = structlog.get_logger("rest")


class TooManyAttempts(Exception):
    """So many passwords are being checked that this one is not."""


class BasicUsers:
    """Checks passwords.

    Args:
        path: of the file.

    Raises:
        ConfigurationError: the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._file = ReloadedFiles([path], lambda: read_users(path))
        self._own_key = secrets.token_bytes(32)
        self._remembered: dict[bytes, PasswordHash] = {}
        self._nobody = hash_of(secrets.token_hex(), secrets.token_bytes(SALT_BYTES))
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)
        self._waiting = 0

    async def check(self, user: str, password: str) -> bool:
        """Return whether a user has this password; of a user who is unknown it takes as long.

        Raises:
            TooManyAttempts: `CHECKS_WAITING_MAX` others wait.
        """
        if len(password) > PASSWORD_CHARACTERS_MAX:
            return False
        known = self._current().get(user)
        shown = hmac.digest(self._own_key, f"{user}\0{password}".encode(), hashlib.sha256)
        if known is not None and self._remembered.get(shown) is known:
            return True
        if self._waiting >= CHECKS_WAITING_MAX:
            raise TooManyAttempts
        self._waiting += 1
        try:
            async with self._checks:
                is_right = await asyncio.to_thread((known or self._nobody).matches, password)
        finally:
            self._waiting -= 1
        if known is None or not is_right:
            return False
        # The file may have changed meanwhile: what was checked was the former hash.
        if self._current().get(user) is not known:
            return False
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[shown] = known
        return True

    def _current(self) -> Mapping[str, PasswordHash]:
        """Return the users; a file that cannot be used leaves the former ones, and is logged once."""
        try:
            if self._file.look():
                self._remembered.clear()
                log.info("the users of the REST API are read again", users=len(self._file.contents))
        except ConfigurationError as error:
            log.error("the users of the REST API stay as they were", problem=str(error))
        return self._file.contents


def read_users(path: Path) -> Mapping[str, PasswordHash]:
    """Return the users of a file.

    Raises:
        ConfigurationError: it cannot be read, is too large, or a line is no user; no message has its text.
    """
    try:
        with path.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise ConfigurationError(f"rest.basic.users.location={path}: it has more than {FILE_BYTES_MAX} bytes")
        return parse_users(content.decode())
    except OSError as error:
        raise ConfigurationError(f"rest.basic.users.location={path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"rest.basic.users.location={path}: it is no text in UTF-8") from None
    except ValueError as error:
        raise ConfigurationError(f"rest.basic.users.location={path}: {error}") from None
