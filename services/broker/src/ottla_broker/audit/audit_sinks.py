"""Where the audit log's records go: a file of its own, or the process's structured log. Used by one thread."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from ottla_broker.audit.audit_records import line

logger = structlog.get_logger("audit")


class AuditSink(Protocol):
    """Takes records."""

    def write(self, records: Sequence[Mapping[str, object]]) -> None:
        """Write records.

        Raises:
            OSError: some of them, or all, are not written.
        """

    def close(self) -> None:
        """Give up what is open."""


class StructuredLogSink:
    """Writes records into the structured log of the process, as events of the logger `audit`."""

    def write(self, records: Sequence[Mapping[str, object]]) -> None:
        """Write records; their time is the event's."""
        for record in records:
            logger.info("audit", **{name: value for name, value in record.items() if name != "time"})

    def close(self) -> None:
        """Do nothing; the log is the process's."""


class AuditFile:
    """Appends records to a file that only the broker's user can read, and goes on in a new one when it is moved.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = self._open()
        self._is_torn = False

    def write(self, records: Sequence[Mapping[str, object]]) -> None:
        """Append records.

        Raises:
            OSError: some of them, or all, are not written.
        """
        fd = self._current()
        # Without this a record would be lost together with the half of one that a full disk has left behind.
        left = memoryview((b"\n" if self._is_torn else b"") + b"".join(map(line, records)))
        self._is_torn = True
        while left:
            left = left[os.write(fd, left) :]
        self._is_torn = False

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _current(self) -> int:
        """Return the file that has the path now: who rotates logs moves the former one away."""
        if self._fd is not None:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(self._path.stat(), os.fstat(self._fd)):
                    return self._fd
            self.close()
        self._fd = self._open()
        return self._fd
