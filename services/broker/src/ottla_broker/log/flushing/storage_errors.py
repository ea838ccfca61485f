"""What the disk refuses of a log, as the error that clients are told.

A read that fails makes the log fail, as an fsync does: who has asked would ask the same leader for the same bytes for
ever, while other replicas have them. (Kafka takes the whole log directory offline.)
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from ottla_broker.log.files.storage_problems import StorageProblems
from ottla_broker.log.flushing.flush import SCARCITY, LogFlush
from ottla_core.errors import KafkaStorageError, NotLeaderOrFollower
from ottla_core.topic_partition import TopicPartition

_NO_FAULT_OF_THE_DISK: Final = SCARCITY | {errno.EBADF}
"""What a read meets that passes by itself, or has met a file that this broker has closed."""


class Named(Protocol):
    """What an error names of a log."""

    topic_partition: TopicPartition
    directory: Path


class StorageErrors:
    """The errors of one log."""

    __slots__ = ("_flush", "_log", "_problems")

    def __init__(self, log: Named, flush: LogFlush, problems: StorageProblems) -> None:
        self._log = log
        self._flush = flush
        self._problems = problems

    def of(self, action: str, error: OSError) -> KafkaStorageError:
        """Return the error for clients, and take note of it.

        Raises:
            NotLeaderOrFollower: the log is no more: that a deleted log has no files is no fault of the disk.
        """
        self._flush.check_open()
        log = self._log
        message = f"Cannot {action} {log.topic_partition} in {log.directory.parent}: {error.strerror or error}"
        self._problems.note(log.directory.parent, action, error, message)
        return KafkaStorageError(message)

    def of_read(self, action: str, error: OSError) -> KafkaStorageError:
        """Return the error for clients, and have the log take no more records, unless what was refused is scarce.

        Raises:
            NotLeaderOrFollower: as `of`.
        """
        problem = self.of(action, error)
        if self._flush.failure is None and error.errno not in _NO_FAULT_OF_THE_DISK:
            self._flush.give_up(f"a read failed in {self._log.directory.parent}: {error.strerror or error}")
        return problem

    def note_unsent(self, error: OSError) -> None:
        """Take note of what the disk has refused of a piece that was to be sent, unless the log is no more."""
        with suppress(NotLeaderOrFollower):
            self.of_read("read", error)

    @contextmanager
    def reading(self, action: str = "read") -> Iterator[None]:
        """Turn what the disk refuses to read in the body into the error for clients, as `of_read`."""
        try:
            yield
        except OSError as error:
            raise self.of_read(action, error) from error

    @contextmanager
    def told(self, action: str) -> Iterator[None]:
        """Turn what the disk refuses in the body into the error for clients."""
        try:
            yield
        except OSError as error:
            raise self.of(action, error) from error
