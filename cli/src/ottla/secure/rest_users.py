"""The file with users of workers' REST APIs: one line changes at a time, all others stay as they are written."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from ottla_core.rest.password_hashes import SALT_BYTES, checked_name, hash_of, parse_users
from ottla_operations.errors import OperationError

OWN_MODE = 0o600


def set_password(path: Path, name: str, password: Callable[[], str]) -> None:
    """Have a file say the password of a user, hashed; the file is made if it is not there.

    Args:
        path: of the file.
        name: of the user.
        password: returns it; called when all else is in order.

    Raises:
        OperationError: the file is none of users, the name is none, or the file cannot be written.
    """
    lines = _lines(path)
    try:
        checked_name(name)
    except ValueError as error:
        raise OperationError(f"{name!r}: {error}") from None
    line = f"{name}:{hash_of(password(), secrets.token_bytes(SALT_BYTES))}"
    kept = [line if _is_of(each, name) else each for each in lines]
    _write(path, kept if line in kept else [*kept, line])


def delete_user(path: Path, name: str) -> None:
    """Remove a user from a file.

    Raises:
        OperationError: the file has no such user, is none of users, or cannot be written.
    """
    lines = _lines(path)
    kept = [each for each in lines if not _is_of(each, name)]
    if len(kept) == len(lines):
        raise OperationError(f"{path} has no user {name}")
    _write(path, kept)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise OperationError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    try:
        parse_users(text)
    except ValueError as error:
        raise OperationError(f"{path}: {error}; it stays as it is") from None
    return text.splitlines()


def _is_of(line: str, name: str) -> bool:
    return not line.lstrip().startswith("#") and line.strip().rpartition(":")[0] == name


def _write(path: Path, lines: list[str]) -> None:
    """Put the file into place at once, so that a worker never reads half of it; its mode stays."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else OWN_MODE
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w") as opened:
            opened.write("".join(f"{line}\n" for line in lines))
            opened.flush()
            os.fsync(opened.fileno())
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise OperationError(f"cannot write {path}: {error.strerror}") from None
