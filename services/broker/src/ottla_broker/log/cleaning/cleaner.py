"""Compaction of all logs of a broker: which log is next, and seeing its round through.

A few workers, each with a cleaning process that lives as long as there is something to clean, take the dirtiest log
whose round is due. Everything that decides or changes a log happens on the event loop (`log_compaction.py`); reading,
comparing and writing happens in the process. A log that cannot be cleaned is set aside with an error and does not
hold up the others. Before a log is deleted its round is given up. Source: Kafka's LogCleaner and LogCleanerManager.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import structlog

from ottla_broker.log.cleaning.cleaning_process import CleaningFailed, CleaningProcess
from ottla_broker.log.compaction.compaction import Assessment
from ottla_broker.log.compaction.segment_cleaning import MappedKeys
from ottla_broker.log.files.checkpoint_file import FsyncFailed, sync_directory
from ottla_broker.log.partition.log_compaction import CompactionRound, RoundGivenUp, RoundLimits
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.segment_swap import SwapInterrupted, remove_cleaned
from ottla_core.background import start_recurring
from ottla_core.clock import Clock
from ottla_core.errors import KafkaError
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log.compaction")

_LOGS_PER_TURN: Final = 50
"""Logs that are looked at before the event loop goes on."""
_BACKOFF_MS_MIN: Final = 10
_RETRY_AFTER_SECONDS: Final = 300.0
"""How long a log rests whose disk has failed, or that ended its process."""

WriteCheckpoint = Callable[[TopicPartition], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """Limits of compaction; names and defaults follow Kafka's broker settings.

    Attributes:
        enable: `log.cleaner.enable`.
        threads: `log.cleaner.threads`: logs that are cleaned at once.
        backoff_ms: `log.cleaner.backoff.ms`.
        limits: what one round may use, a worker's share.
    """

    enable: bool = True
    threads: int = 1
    backoff_ms: int = 15_000
    limits: RoundLimits = field(default_factory=RoundLimits)


class Logs(Protocol):
    """What the cleaner needs of the log store."""

    logs: Mapping[TopicPartition, PartitionLog]


@dataclass(frozen=True, slots=True)
class _SetAside:
    """A log that is not cleaned for a while, or until the broker is restarted."""

    log: PartitionLog
    until_s: float


@dataclass(slots=True)
class _Underway:
    """A log whose round a process is at."""

    process: CleaningProcess
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class LogCleaner:
    """Compacts the logs of one store.

    Attributes:
        rounds: finished rounds.
        read_bytes: what they have replaced.
        written_bytes: what they have put in its place.
        dirty_ratio_max: the dirtiest log's ratio when logs were looked at last.
    """

    def __init__(
        self, store: Logs, write_checkpoint: WriteCheckpoint, clock: Clock, settings: CleanerSettings
    ) -> None:
        self.rounds = 0
        self.read_bytes = 0
        self.written_bytes = 0
        self.dirty_ratio_max = 0.0
        self._store = store
        self._write_checkpoint = write_checkpoint
        self._clock = clock
        self._settings = settings
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()
        self._is_running = False
        self._workers: dict[int, asyncio.Task[None]] = {}
        self._underway: dict[TopicPartition, _Underway] = {}
        self._paused: Counter[TopicPartition] = Counter()
        self._set_aside: dict[TopicPartition, _SetAside] = {}

    # Running

    def start(self) -> None:
        """Begin to compact, unless the settings say not to."""
        self._is_running = self._settings.enable
        self._start_workers()

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Go by other settings: rounds under way end as they began, and workers that are too many after them."""
        if settings == self._settings:
            return
        self._settings = settings
        woken, self._woken = self._woken, asyncio.Event()
        woken.set()
        self._start_workers()

    def _start_workers(self) -> None:
        if not self._is_running or self._stopping.is_set():
            return
        # A worker that was too many and is still at its round goes on if it is wanted again.
        self._workers = {number: worker for number, worker in self._workers.items() if not worker.done()}
        for number in range(self._settings.threads):
            if number not in self._workers:
                self._workers[number] = start_recurring(
                    "log cleaner", partial(self._work, number), until=self._stopping, number=number
                )

    async def stop(self) -> None:
        """Give up the rounds under way and return when all processes are gone."""
        self._stopping.set()
        self._woken.set()
        for underway in self._underway.values():
            underway.process.kill()
        await asyncio.gather(*self._workers.values(), return_exceptions=True)
        self._workers = {}

    @asynccontextmanager
    async def paused(self, topic_partition: TopicPartition) -> AsyncIterator[None]:
        """Keep a log from being compacted; its round is given up and its process gone when the block begins."""
        self._paused[topic_partition] += 1
        try:
            underway = self._underway.get(topic_partition)
            if underway is not None:
                underway.process.kill()
                await underway.ended.wait()
            yield
        finally:
            self._paused[topic_partition] -= 1
            if not self._paused[topic_partition]:
                del self._paused[topic_partition]

    @property
    def uncleanable_count(self) -> int:
        """Logs that are set aside."""
        return sum(self._is_set_aside(log) for log in self._store.logs.values())

    async def _work(self, number: int) -> None:
        process: CleaningProcess | None = None
        is_idle = False
        try:
            while not self._stopping.is_set() and number < self._settings.threads:
                log = await self._dirtiest()
                if log is None:
                    if process is not None and is_idle:  # it has not been needed for a while and takes memory
                        await process.close()
                        process = None
                    is_idle = True
                    await self._rest()
                    continue
                is_idle = False
                process = process or await self._start_process()
                if process is not None and not await self._clean(log, process):
                    process = None
        finally:
            if process is not None:
                await process.close()

    async def _rest(self) -> None:
        """Wait until logs are looked at again, or the settings have changed."""
        with suppress(TimeoutError):
            backoff_ms = max(self._settings.backoff_ms, _BACKOFF_MS_MIN)
            await asyncio.wait_for(self._woken.wait(), backoff_ms / 1000)

    async def _start_process(self) -> CleaningProcess | None:
        try:
            return await CleaningProcess.start()
        except OSError as error:
            _logger.error("no cleaning process can be started", problem=str(error))
            await self._rest()
            return None

    # Choosing

    async def _dirtiest(self) -> PartitionLog | None:
        """Return the log to clean next, if the round of any is due."""
        found: PartitionLog | None = None
        found_ratio = ratio_max = 0.0
        for number, log in enumerate(list(self._store.logs.values())):
            if number % _LOGS_PER_TURN == _LOGS_PER_TURN - 1:
                await asyncio.sleep(0)
            if not self._may_be_cleaned(log):
                continue
            log.compaction.make_durable()
            assessment = self._assess(log)
            if assessment is None:
                continue
            ratio_max = max(ratio_max, assessment.dirty_ratio)
            if assessment.is_due and (found is None or assessment.dirty_ratio > found_ratio):
                found, found_ratio = log, assessment.dirty_ratio
        self.dirty_ratio_max = ratio_max
        return found

    def _may_be_cleaned(self, log: PartitionLog) -> bool:
        key = log.topic_partition
        return (
            not self._stopping.is_set()
            and "compact" in log.config.cleanup_policy
            and self._store.logs.get(key) is log
            and key not in self._underway
            and key not in self._paused
            and not self._is_set_aside(log)
        )

    def _is_set_aside(self, log: PartitionLog) -> bool:
        entry = self._set_aside.get(log.topic_partition)
        if entry is None:
            return False
        if entry.log is log and self._clock.monotonic() < entry.until_s:
            return True
        del self._set_aside[log.topic_partition]
        return False

    def _assess(self, log: PartitionLog) -> Assessment | None:
        try:
            return log.compaction.assess(self._clock.time_ms())
        except (OSError, KafkaError) as error:
            self._put_aside(log, str(error), is_permanent=isinstance(error, KafkaError))
            return None

    def _put_aside(self, log: PartitionLog, problem: str, *, is_permanent: bool) -> None:
        until_s = math.inf if is_permanent else self._clock.monotonic() + _RETRY_AFTER_SECONDS
        self._set_aside[log.topic_partition] = _SetAside(log, until_s)
        _logger.error(
            "a log cannot be compacted and grows; it is not tried again before the broker is restarted"
            if is_permanent
            else "a log cannot be compacted at present",
            partition=str(log.topic_partition),
            problem=problem,
        )

    # Cleaning

    async def _clean(self, log: PartitionLog, process: CleaningProcess) -> bool:
        """See one round through; return whether the process can be used again, or has been ended."""
        assessment = self._assess(log) if self._may_be_cleaned(log) else None
        if assessment is None or not assessment.is_due:
            return True  # the log has changed while others were looked at
        try:
            cleaning = log.compaction.begin(assessment, self._settings.limits, self._clock.time_ms())
        except OSError as error:
            self._put_aside(log, str(error), is_permanent=False)
            return True
        underway = self._underway[log.topic_partition] = _Underway(process)
        try:
            await self._see_through(cleaning, log, process)
        except (RoundGivenUp, CleaningFailed, OSError) as error:
            await process.close()
            if not isinstance(error, SwapInterrupted):  # whose files are for the next start
                await asyncio.to_thread(_remove_cleaned, log)
            self._report(log, cleaning, error)
            return False
        else:
            if process.was_ended:  # for a pause that has begun when the round was all but over
                await process.close()
                return False
            return True
        finally:
            del self._underway[log.topic_partition]
            underway.ended.set()

    async def _see_through(self, cleaning: CompactionRound, log: PartitionLog, process: CleaningProcess) -> None:
        """Have the process do the job, and swap in what it makes."""
        began_s = time.perf_counter()
        end_offset = cleaning.job.first_dirty_offset
        keys = read_bytes = written_bytes = 0
        async for result in process.run(cleaning.job):
            if isinstance(result, MappedKeys):
                end_offset, keys = result.end_offset, result.keys
                continue
            cleaning.swap(result, self._clock.time_ms())
            # Were it undone by a power failure when a later round counts on it, tombstones would go before what they
            # delete. The log stays where it is, as whoever moves or deletes it waits for the end of the round.
            await asyncio.to_thread(sync_directory, log.directory)
            read_bytes += result.read_bytes
            written_bytes += result.size_bytes
            self.read_bytes += result.read_bytes
            self.written_bytes += result.size_bytes
        cleaning.finish(end_offset)
        self.rounds += 1
        _logger.info(
            "compacted a log",
            partition=str(log.topic_partition),
            first_dirty_offset=cleaning.job.first_dirty_offset,
            end_offset=end_offset,
            keys=keys,
            bytes_before=read_bytes,
            bytes_after=written_bytes,
            seconds=round(time.perf_counter() - began_s, 3),
        )
        await self._write_checkpoint(log.topic_partition)

    def _report(self, log: PartitionLog, cleaning: CompactionRound, error: Exception) -> None:
        """Set a log aside, unless the round was ended on purpose or because the log has changed."""
        is_wanted = self._stopping.is_set() or log.topic_partition in self._paused
        is_interrupted = isinstance(error, SwapInterrupted)
        if not is_interrupted and (is_wanted or isinstance(error, RoundGivenUp) or not cleaning.is_current):
            _logger.info("a compaction was given up", partition=str(log.topic_partition))
            return
        # After a failed fsync the next one may succeed without what the failed one was for.
        is_permanent = isinstance(error, FsyncFailed | SwapInterrupted) or (
            isinstance(error, CleaningFailed) and error.is_permanent
        )
        self._put_aside(log, str(error), is_permanent=is_permanent)


def _remove_cleaned(log: PartitionLog) -> None:
    with suppress(OSError):  # the next start removes them, or the directory is gone with its partition
        remove_cleaned(log.directory)
