"""What a log store does by itself from time to time: retention, checkpoints, timed flushes, forgetting producers.

Each duty has a task of its own, so that none waits for another or dies with it. Duties look at the logs on the event
loop, a few at a time, and write files in threads. A duty that fails is logged and tried again at its next turn; one
that has begun when the store closes is waited for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from ottla_broker.log.cleaning.cleaner import CleanerSettings
from ottla_broker.log.directories.directory_checkpoints import DirectoriesAndLogs, DirectoryCheckpoints
from ottla_broker.log.directories.log_directory import LogDirectory
from ottla_broker.log.files.storage_problems import TELL_INTERVAL_MS
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.segment_file import OPEN_FILES_MAX
from ottla_core.background import start_recurring
from ottla_core.clock import Clock
from ottla_core.config_definition import INT64_MAX
from ottla_core.errors import KafkaStorageError

_logger: Final = structlog.get_logger("log.duties")

_LOGS_PER_TURN: Final = 50
"""Logs that a duty looks at before it lets the event loop go on."""


@dataclass(frozen=True, slots=True)
class LogStoreSettings:
    """Intervals and limits of a log store; names and defaults follow Kafka's broker settings.

    Attributes:
        retention_check_interval_ms: `log.retention.check.interval.ms`.
        flush_check_interval_ms: how often `flush.ms` is looked after; `log.flush.scheduler.interval.ms`.
        recovery_point_checkpoint_interval_ms: `log.flush.offset.checkpoint.interval.ms`; log start offsets too.
        high_watermark_checkpoint_interval_ms: `replica.high.watermark.checkpoint.interval.ms`.
        producer_expiration_ms: `producer.id.expiration.ms`.
        producer_expiration_check_interval_ms: `producer.id.expiration.check.interval.ms`.
        recovery_threads_per_directory: `num.recovery.threads.per.data.dir`.
        open_files_max: segments that keep their file open.
        cleaner: limits of compaction.
    """

    retention_check_interval_ms: int = 300_000
    flush_check_interval_ms: int = 1_000
    recovery_point_checkpoint_interval_ms: int = 60_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    producer_expiration_ms: int = 86_400_000
    producer_expiration_check_interval_ms: int = 600_000
    recovery_threads_per_directory: int = 2
    open_files_max: int = OPEN_FILES_MAX
    cleaner: CleanerSettings = field(default_factory=CleanerSettings)


class LogDuties:
    """The recurring duties of one log store."""

    def __init__(
        self, store: DirectoriesAndLogs, checkpoints: DirectoryCheckpoints, clock: Clock, settings: LogStoreSettings
    ) -> None:
        self._store = store
        self._checkpoints = checkpoints
        self._clock = clock
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._duties: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (settings.retention_check_interval_ms, self.enforce_retention),
            (settings.flush_check_interval_ms, self.start_due_flushes),
            (settings.recovery_point_checkpoint_interval_ms, self.checkpoint_recovery_points),
            (settings.high_watermark_checkpoint_interval_ms, self.checkpoint_high_watermarks),
            (settings.producer_expiration_check_interval_ms, self.expire_producers),
            (TELL_INTERVAL_MS, self.tell_storage_problems),
        ]

    def start(self) -> None:
        """Begin to perform the duties."""
        self._tasks = [
            start_recurring(
                "log duty", partial(self._repeat, interval_ms / 1000, duty), until=self._stopping, duty=duty.__name__
            )
            for interval_ms, duty in self._duties
        ]

    async def stop(self) -> None:
        """Begin no more duties, and wait for those under way."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)
        self._tasks = []

    async def _repeat(self, interval_s: float, duty: Callable[[], Awaitable[None]]) -> None:
        due = self._clock.monotonic()
        while True:
            due += interval_s
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), max(0.0, due - self._clock.monotonic()))
                return
            due = self._clock.monotonic()
            try:
                await duty()
            except (OSError, KafkaStorageError) as error:
                _logger.error("a duty failed and is tried again", duty=duty.__name__, problem=str(error))

    async def _each_log(self, work: Callable[[PartitionLog], object]) -> None:
        for number, log in enumerate(list(self._store.logs.values())):
            if number % _LOGS_PER_TURN == _LOGS_PER_TURN - 1:
                await asyncio.sleep(0)
            if self._store.logs.get(log.topic_partition) is log:
                with suppress(KafkaStorageError):  # logged where it happened; the other logs have their turn
                    work(log)

    async def _each_directory(self, write: Callable[[LogDirectory], Awaitable[None]]) -> None:
        """Write checkpoints of every directory, also behind one whose disk refuses.

        Raises:
            OSError: a disk has refused; those of the other directories are written.
        """
        refused: OSError | None = None
        for directory in list(self._store.directories.online()):
            try:
                await write(directory)
            except OSError as error:
                refused = error
        if refused is not None:
            raise refused

    async def enforce_retention(self) -> None:
        """Delete the old segments of every log."""
        now_ms = self._clock.time_ms()
        await self._each_log(lambda log: log.enforce_retention(now_ms))

    async def start_due_flushes(self) -> None:
        """Begin an fsync of every log whose oldest unflushed record is older than `flush.ms`."""
        now_ms = self._clock.time_ms()
        await self._each_log(lambda log: log.flush_if_due(now_ms) if log.config.flush_ms < INT64_MAX else None)

    async def expire_producers(self) -> None:
        """Forget producers that have been silent too long."""
        now_ms = self._clock.time_ms()
        await self._each_log(lambda log: log.expire_producers(now_ms))

    async def tell_storage_problems(self) -> None:
        """Log how often the disks have refused something lately."""
        self._store.storage_problems.tell()

    async def checkpoint_recovery_points(self) -> None:
        """Write the recovery points, log start offsets and first dirty offsets of every directory."""
        await self._each_directory(self._checkpoints.write_recovery_points)

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks of every directory."""
        await self._each_directory(self._checkpoints.write_high_watermarks)
