"""Where a password comes from: a file, the standard input, or the user at the terminal; never the command line."""

import getpass
import sys
from pathlib import Path
from typing import Final

from ottla_operations.errors import OperationError
from ottla_operations.users.passwords import PASSWORD_BYTES_MAX, checked_password

STANDARD_INPUT: Final = Path("-")


def read_password(source: Path | None, user: str) -> str:
    """Return the new password of a user.

    Args:
        source: a file, `STANDARD_INPUT`, or None to ask at the terminal; of a file the first line counts.
        user: for the question.

    Raises:
        OperationError: there is no password, or no terminal.
    """
    if source is None:
        return _asked_for(user)
    try:
        if source == STANDARD_INPUT:
            content = sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 2)
        else:
            with source.open("rb") as opened:
                content = opened.readline(PASSWORD_BYTES_MAX + 2)
        password = content.decode().rstrip("\r\n")
    except OSError as error:
        raise OperationError(f"cannot read the password from {source}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OperationError(f"cannot read the password from {source}: it is no text in UTF-8") from None
    return checked_password(password)


def _asked_for(user: str) -> str:
    if not sys.stdin.isatty():
        raise OperationError(
            "there is no terminal to ask for the password at; --password-file names a file that has it, or - for the"
            " standard input"
        )
    password = getpass.getpass(f"password of {user}: ")
    if getpass.getpass("once more: ") != password:
        raise OperationError("the passwords are not the same; nothing was changed")
    return checked_password(password)
