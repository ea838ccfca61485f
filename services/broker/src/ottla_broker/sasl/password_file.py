"""A file of PLAIN's users, a line ``NAME=PASSWORD`` for each, which is read again when it changes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog

from ottla_core.errors import ConfigurationError
from ottla_core.reloaded_files import ReloadedFiles

FILE_BYTES_MAX: Final = 1024 * 1024

logger = structlog.get_logger("sasl")


class PasswordFile:
    """The users of a file.

    Raises:
        ConfigurationError: the file cannot be read, or a line is no user.
    """

    def __init__(self, path: Path) -> None:
        self._file = ReloadedFiles([path], lambda: read_passwords(path))

    def passwords(self) -> Mapping[str, str]:
        """Return the passwords by user; a file that cannot be used leaves the former ones, and is logged once."""
        try:
            if self._file.look():
                logger.info("the users of PLAIN are read again", users=len(self._file.contents))
        except ConfigurationError as error:
            logger.error("the users of PLAIN stay as they were", problem=str(error))
        return self._file.contents


def read_passwords(path: Path) -> dict[str, str]:
    """Return the passwords in a file by user; empty lines and those that begin with # are passed over.

    Raises:
        ConfigurationError: the file cannot be read, is too large, or a line is no user; no message has its text.
    """
    try:
        with path.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
        lines = content.decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigurationError(f"cannot read the users of PLAIN in {path}: {reason}") from None
    if len(content) > FILE_BYTES_MAX:
        raise ConfigurationError(f"cannot read the users of PLAIN in {path}: it has more than {FILE_BYTES_MAX} bytes")
    passwords = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, password = line.partition("=")
        if not equals or not name.strip() or not password:
            raise ConfigurationError(f"{path}:{number}: write a user as NAME=PASSWORD")
        passwords[name.strip()] = password
    return passwords
