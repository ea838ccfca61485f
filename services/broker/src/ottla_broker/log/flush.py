"""Making a log durable, with one fsync for all who wait.

`FlushPlan` is what the disk has to do, collected on the event loop and carried out in a thread. `LogFlush`
keeps the recovery point, below which everything is durable. While one fsync runs, whatever is appended
meanwhile waits for the next one, which covers all of it.

A failed fsync is final: the kernel may have dropped what it could not write, and a later fsync would not say so.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from os import fsync
from pathlib import Path
from typing import Final, Protocol

import structlog

from ottla_broker.log.background import Background
from ottla_broker.log.checkpoint_file import sync_directory, sync_file
from ottla_broker.log.leader_epoch_checkpoint import EpochEntry, LeaderEpochs, write_leader_epochs
from ottla_broker.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from ottla_broker.log.segment_file import SegmentFile
from ottla_broker.log.segments import Segments
from ottla_core.errors import KafkaStorageError
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log")


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """What to make durable, so that the recovery point may move to `through_offset`.

    Attributes:
        directory: the partition's directory.
        files: segments' files.
        paths: index and snapshot files; those that are gone by now need no fsync.
        sync_names: whether files were created since the last flush.
        leader_epochs: epochs to write, or None where the file has them.
        through_offset: the recovery point afterwards.
        truncation_count: how often the log had been truncated when this was planned.
    """

    directory: Path
    files: tuple[SegmentFile, ...]
    paths: tuple[Path, ...]
    sync_names: bool
    leader_epochs: tuple[EpochEntry, ...] | None
    through_offset: int
    truncation_count: int

    def run(self) -> None:
        """Do it; blocks, and raises OSError."""
        for file in self.files:
            fsync(file.fileno())
        for path in self.paths:
            with suppress(FileNotFoundError):
                sync_file(path)
        with suppress(FileNotFoundError):  # the whole partition may have been deleted meanwhile
            if self.leader_epochs is not None:
                write_leader_epochs(self.directory, self.leader_epochs)
            if self.sync_names:
                sync_directory(self.directory)


class Flushable(Protocol):
    """What a flush needs of a log."""

    topic_partition: TopicPartition
    directory: Path
    segments: Segments
    leader_epochs: LeaderEpochs
    log_end_offset: int


class LogFlush:
    """The durability of one log.

    Attributes:
        recovery_point: everything below this offset is durable.
        failure: why the log takes no more appends, or None.
        truncation_count: how often the log was truncated.
        last_flush_ms: when the last timed flush was looked at.
    """

    __slots__ = (
        "_background", "_log", "_running", "_snapshots", "failure", "last_flush_ms", "recovery_point",
        "truncation_count",
    )  # fmt: skip

    def __init__(self, log: Flushable, background: Background, recovery_point: int, now_ms: int) -> None:
        self.recovery_point = recovery_point
        self.failure: str | None = None
        self.truncation_count = 0
        self.last_flush_ms = now_ms
        self._log = log
        self._background = background
        self._running: asyncio.Future[None] | None = None
        self._snapshots: list[Path] = []

    def add_snapshot(self, path: Path) -> None:
        """Have the next flush fsync this producer snapshot too."""
        self._snapshots.append(path)

    def truncated_to(self, offset: int) -> None:
        """Note that the log lost everything from `offset` on; a flush under way counts for nothing."""
        self.truncation_count += 1
        self.recovery_point = min(self.recovery_point, offset)
        self._snapshots.clear()

    def flush(self) -> None:
        """Fsync everything appended so far; blocks.

        Raises:
            KafkaStorageError: the fsync failed; the log takes no more appends.
        """
        plan = self._plan(self._log.log_end_offset)
        try:
            plan.run()
        except OSError as error:
            raise self._fail(plan, error) from error
        self._succeed(plan)

    def start(self, through_offset: int) -> None:
        """Begin an fsync of everything below `through_offset` in the background.

        Raises:
            KafkaStorageError: the files cannot even be opened.
        """
        plan = self._plan(through_offset)

        def failed(error: OSError) -> None:
            self._fail(plan, error)

        self._background.submit(plan.run, then=lambda: self._succeed(plan), failed=failed)

    async def wait_for_one(self) -> None:
        """Wait for the shared flush under way or, if there is none, for a new one.

        Raises:
            KafkaStorageError: it failed.
        """
        await asyncio.shield(self._running or self._start_shared())

    def _start_shared(self) -> asyncio.Future[None]:
        plan = self._plan(self._log.log_end_offset)
        running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = running

        def then() -> None:
            self._running = None
            self._succeed(plan)
            running.set_result(None)

        def failed(error: OSError) -> None:
            self._running = None
            running.set_exception(self._fail(plan, error))
            running.exception()  # those who waited may all be gone

        self._background.submit(plan.run, then=then, failed=failed)
        return running

    def _plan(self, through_offset: int) -> FlushPlan:
        """Collect what has to reach the disk before the recovery point may move to `through_offset`."""
        log = self._log
        first = log.segments.number_for(self.recovery_point)
        dirty = [segment for segment in list(log.segments)[first:] if segment.base_offset < through_offset]
        paths = self._snapshots
        try:
            for segment in dirty:
                segment.write_indexes()
                paths += (segment.path(INDEX_SUFFIX), segment.path(TIME_INDEX_SUFFIX))
            files = tuple(segment.file() for segment in dirty)
        except OSError as error:
            raise KafkaStorageError(
                f"Cannot flush {log.topic_partition} in {log.directory.parent}: {error.strerror or error}"
            ) from error
        self._snapshots = []
        epochs = log.leader_epochs.entries if log.leader_epochs.is_dirty else None
        log.leader_epochs.is_dirty = False
        return FlushPlan(
            directory=log.directory,
            files=files,
            paths=tuple(paths),
            sync_names=log.segments.active.base_offset >= self.recovery_point,
            leader_epochs=epochs,
            through_offset=through_offset,
            truncation_count=self.truncation_count,
        )

    def _succeed(self, plan: FlushPlan) -> None:
        if plan.truncation_count == self.truncation_count:
            self.recovery_point = max(self.recovery_point, plan.through_offset)

    def _fail(self, plan: FlushPlan, error: OSError) -> KafkaStorageError:
        log = self._log
        log.leader_epochs.is_dirty = log.leader_epochs.is_dirty or plan.leader_epochs is not None
        self.failure = (
            f"{log.topic_partition} takes no more records since an fsync failed in"
            f" {log.directory.parent}: {error.strerror or error}. Repair the disk and restart the broker"
        )
        _logger.error("storage error", problem=self.failure)
        return KafkaStorageError(self.failure)
