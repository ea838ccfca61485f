"""Reading and writing the files of backups and facts; they are for their owner only, as settings may hold secrets."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ottla.recover.backups import decode_backup
from ottla_core.cluster.state.recovery_facts import BadFacts, BrokerFacts, decode_facts
from ottla_core.cluster.state.state_copy import StateCopy
from ottla_operations.errors import OperationError


def write_private(path: Path, content: bytes) -> None:
    """Write a file so that it is there as a whole or not at all.

    Raises:
        OperationError: it cannot be written.
    """
    draft = path.with_name(path.name + ".new")
    try:
        draft.unlink(missing_ok=True)  # one that was left would keep its mode
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise OperationError(f"cannot write {path}: {error.strerror}") from None


def read_backup(path: Path) -> tuple[StateCopy, str]:
    """Return the state of a backup, and when it was made.

    Raises:
        OperationError: the file cannot be read, or is no backup.
    """
    try:
        return decode_backup(_read(path))
    except BadFacts as error:
        raise OperationError(f"cannot use the backup {path}: {error}") from None


def read_facts(paths: Sequence[Path]) -> list[BrokerFacts]:
    """Return the facts of files.

    Raises:
        OperationError: a file cannot be read, or has no facts.
    """
    found = []
    for path in paths:
        try:
            found.append(decode_facts(_read(path)))
        except BadFacts as error:
            raise OperationError(f"cannot use the facts of {path}: {error}") from None
    return found


def _read(path: Path) -> object:
    try:
        document: object = json.loads(path.read_bytes())
    except OSError as error:
        raise OperationError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise OperationError(f"{path} is no JSON file") from None
    return document
