"""What the disk refuses of a log, as the error that clients are told."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ottla_broker.log.files.storage_problems import StorageProblems
from ottla_broker.log.flushing.flush import LogFlush
from ottla_core.errors import KafkaStorageError
from ottla_core.topic_partition import TopicPartition


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

    @contextmanager
    def told(self, action: str) -> Iterator[None]:
        """Turn what the disk refuses in the body into the error for clients."""
        try:
            yield
        except OSError as error:
            raise self.of(action, error) from error
