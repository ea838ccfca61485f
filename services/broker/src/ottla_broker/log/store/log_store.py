"""All logs of a broker: loading them at start, creating, deleting, and the duties that recur.

Each log lives in one of the log directories; a new one goes where the fewest are. Source: Kafka's LogManager.
"""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final
from uuid import UUID

import structlog

from ottla_broker.log.cleaning.cleaner import LogCleaner
from ottla_broker.log.directories.batched_creation import BatchedCreation
from ottla_broker.log.directories.directory_checkpoints import DirectoryCheckpoints
from ottla_broker.log.directories.log_directories import LogDirectories, take_directories
from ottla_broker.log.directories.log_directory import (
    LogDirectory,
    future_name,
    set_aside_name,
)
from ottla_broker.log.files.checkpoint_file import sync_directory
from ottla_broker.log.files.log_disposal import LogDisposal
from ottla_broker.log.files.storage_problems import StorageProblems
from ottla_broker.log.moves.interrupted_moves import InterruptedMove, settle_interrupted_moves
from ottla_broker.log.moves.log_moves import FutureLogDescription, LogMoves
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.partition.truncation import TruncationContext
from ottla_broker.log.segments.segment_file import OpenFiles
from ottla_broker.log.store.log_duties import LogDuties, LogStoreSettings
from ottla_broker.log.store.store_loading import ConfigFor, LogOpeningSettings
from ottla_broker.log.store.threaded_background import ThreadedBackground
from ottla_core.clock import Clock
from ottla_core.errors import (
    ConfigurationError,
    KafkaStorageError,
    LogDirectoryNotFound,
    ReplicaNotAvailable,
)
from ottla_core.throttle_config import UNLIMITED
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log.store")

_BACKGROUND_THREADS: Final = 4
_PREFERRED_MAX: Final = 10_000
"""Logs that are not here for which a directory was asked for; the oldest wishes are forgotten."""


@dataclass(frozen=True, slots=True)
class DirectoryDescription:
    """What DescribeLogDirs tells of a log directory; sizes in bytes, -1 where unknown."""

    path: Path
    error: str | None
    total_bytes: int
    usable_bytes: int
    partition_sizes: Mapping[TopicPartition, int]
    futures: Mapping[TopicPartition, FutureLogDescription]


class LogStore:
    """All logs of one broker.

    Attributes:
        directories: `log.dirs`.
        logs: every log by its partition; a live, read-only view.
        cleaner: compacts those logs that are to be compacted.
        storage_problems: what the disks refuse.
    """

    def __init__(
        self, directories: LogDirectories, clock: Clock, settings: LogStoreSettings, move_rate: Callable[[], int]
    ) -> None:
        self.directories = directories
        self._clock = clock
        self._settings = settings
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        self.logs: Mapping[TopicPartition, PartitionLog] = MappingProxyType(self._logs)
        self._executor = ThreadPoolExecutor(_BACKGROUND_THREADS, thread_name_prefix="log")
        self._background = ThreadedBackground(asyncio.get_running_loop(), self._executor)
        self.storage_problems = StorageProblems()
        self._opening = LogOpeningSettings(
            clock, settings, OpenFiles(settings.open_files_max), self._background, self.storage_problems
        )
        self._checkpoints = DirectoryCheckpoints(self)
        self._creation = BatchedCreation(self._checkpoints, self._executor, self._background)
        self._truncations = TruncationContext(self._announce_truncation)
        self._duties = LogDuties(self, self._checkpoints, clock, settings)
        self.cleaner = LogCleaner(self, self._write_first_dirty_offset, clock, settings.cleaner)
        self._moves = LogMoves(self, self._checkpoints, self.cleaner, clock, move_rate)

    # Opening

    @classmethod
    async def open(
        cls,
        directories: Sequence[Path],
        *,
        node_id: int,
        cluster_id: str,
        config_for: ConfigFor,
        clock: Clock,
        settings: LogStoreSettings,
        move_rate: Callable[[], int] = lambda: UNLIMITED,
    ) -> "LogStore":
        """Take over the log directories and load every log in them.

        Args:
            directories: `log.dirs`.
            node_id: this broker's id.
            cluster_id: the cluster's id.
            config_for: gives a topic's settings by its name.
            clock: for timestamps and retention.
            settings: intervals and limits.
            move_rate: gives the bytes per second that may be copied between directories at present.

        Raises:
            ConfigurationError: a directory is in use or belongs to someone else, a partition lies in two of
                them, or none can be used.
        """
        taken = await take_directories(directories, node_id=node_id, cluster_id=cluster_id)
        return await cls.load(taken, config_for=config_for, clock=clock, settings=settings, move_rate=move_rate)

    @classmethod
    async def load(
        cls,
        directories: LogDirectories,
        *,
        config_for: ConfigFor,
        clock: Clock,
        settings: LogStoreSettings,
        move_rate: Callable[[], int] = lambda: UNLIMITED,
    ) -> "LogStore":
        """Load every log in directories that were taken over; those are let go if that fails.

        The arguments are those of `open`.

        Raises:
            ConfigurationError: a partition lies in two of them, or none can be used.
        """
        store = cls(directories, clock, settings, move_rate)
        try:
            interrupted = await store._settle_interrupted_moves()
            online = store.directories.online()
            await asyncio.gather(*(store._load_directory(directory, config_for) for directory in online))
            store.directories.check_any_online()
        except BaseException:
            store._release()
            raise
        store._duties.start()
        store.cleaner.start()
        for topic_partition, target, path in interrupted:
            store._resume_move(topic_partition, target, path)
        return store

    async def _settle_interrupted_moves(self) -> list[InterruptedMove]:
        try:
            return await asyncio.to_thread(settle_interrupted_moves, list(self.directories.online()))
        except OSError as error:  # loading the directory will meet it too, and set the directory offline
            _logger.error("interrupted moves cannot be settled", problem=str(error))
            return []

    async def _load_directory(self, directory: LogDirectory, config_for: ConfigFor) -> None:
        started = self._clock.monotonic()
        try:
            await self._opening.load_logs(directory, config_for, self._hold)
        except OSError as error:
            self.directories.set_offline(directory, error)
            for topic_partition in self.logs_in(directory):
                self._forget(topic_partition).abandon()
            return
        _logger.info(
            "loaded logs",
            directory=str(directory.path),
            count=len(self.logs_in(directory)),
            was_clean=directory.was_clean,
            seconds=round(self._clock.monotonic() - started, 3),
        )

    def _hold(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Take over a log that was loaded; runs in a recovery thread, of which none touches the same partition."""
        home = self._homes.setdefault(log.topic_partition, directory)
        if home is not directory:
            raise ConfigurationError(
                f"{log.topic_partition} lies in two log directories: {home.path} and {directory.path}"
            )
        log.truncation.context = self._truncations
        self._logs[log.topic_partition] = log

    # Asking

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return a partition's log, or None if this broker has none."""
        return self._logs.get(topic_partition)

    @property
    def highest_producer_id(self) -> int:
        """The highest id of an idempotent producer that a log remembers, or -1."""
        return max((log.producers.highest_id for log in self.logs.values()), default=-1)

    def logs_in(self, directory: LogDirectory) -> dict[TopicPartition, PartitionLog]:
        """Return the logs that live in a directory."""
        return {key: log for key, log in self._logs.items() if self._homes[key] is directory}

    def arriving_in(self, directory: LogDirectory) -> dict[TopicPartition, PartitionLog]:
        """Return the logs that may live in a directory at any moment, being moved there."""
        return self._moves.arriving_in(directory)

    def describe(self) -> list[DirectoryDescription]:
        """Return what DescribeLogDirs tells of each directory."""
        descriptions = []
        for directory in self.directories:
            total_bytes = usable_bytes = -1
            problem = directory.error
            if problem is None:
                try:
                    space = os.statvfs(directory.path)
                    total_bytes = space.f_blocks * space.f_frsize
                    usable_bytes = space.f_bavail * space.f_frsize
                except OSError as error:  # its logs go on, each until the disk fails it
                    problem = f"{directory.path}: {error.strerror or error}"
            sizes = {key: log.size_bytes for key, log in self.logs_in(directory).items()}
            futures = self._moves.futures_in(directory)
            descriptions.append(
                DirectoryDescription(directory.path, problem, total_bytes, usable_bytes, sizes, futures)
            )
        return descriptions

    # Changing

    async def create(
        self, topic_partition: TopicPartition, topic_id: UUID, config: TopicConfig, *, is_new: bool
    ) -> PartitionLog:
        """Create an empty log; one of the same topic id is returned as it is.

        It goes into the directory that somebody has asked to move it to, or else into the one with the fewest.

        Args:
            topic_partition: the partition.
            topic_id: its topic's id.
            config: its topic's settings.
            is_new: no broker can hold records of the partition yet. If some may, and a log directory is
                offline, they may lie there, and an empty log must not take their place.

        Raises:
            KafkaStorageError: no directory can take it, an offline one may hold it, or a log of an earlier topic of
                the same name is in use still.
        """
        existing = self._logs.get(topic_partition)
        if existing is not None and existing.topic_id == topic_id:
            return existing
        if existing is not None:
            raise KafkaStorageError(f"A log of an earlier topic is in the way of {topic_partition}")
        assert topic_partition not in self._homes, f"{topic_partition} is being created already"
        if not is_new:
            self._check_none_offline(topic_partition)
        directory = self._preferred.pop(topic_partition, None) or self._least_used_directory()
        self._homes[topic_partition] = directory
        path = directory.path / str(topic_partition)
        try:
            request = self._opening.request(topic_partition, path, config, was_clean=False)
            log = await self._creation.create(directory, request, topic_id)
        except OSError as error:
            del self._homes[topic_partition]
            raise KafkaStorageError(
                f"Cannot create {topic_partition} in {directory.path}: {error.strerror or error}"
            ) from error
        except BaseException:
            del self._homes[topic_partition]  # or the next attempt would take it for one that is being created
            raise
        log.truncation.context = self._truncations
        self._logs[topic_partition] = log
        return log

    def _check_none_offline(self, topic_partition: TopicPartition) -> None:
        for directory in self.directories:
            if directory.error is not None:
                raise KafkaStorageError(
                    f"{topic_partition} may lie in a log directory that is offline, and is not begun anew elsewhere."
                    f" Repair the directory, or take it out of log.dirs, and restart the broker: {directory.error}"
                )

    def _least_used_directory(self) -> LogDirectory:
        online = list(self.directories.online())
        if not online:
            raise KafkaStorageError("No log directory is online")
        if len(online) == 1:
            return online[0]  # creating many logs must not cost the square of their number
        counts = Counter(map(id, self._homes.values()))
        return min(online, key=lambda directory: counts[id(directory)])

    @asynccontextmanager
    async def at_rest(self, log: PartitionLog) -> AsyncIterator[None]:
        """Wait until nothing works in a log's directory, and keep it so up to the first await of the block.

        A move is given up or, if it is all but done, waited for; so is a round of compaction.
        """
        key = log.topic_partition
        async with self.cleaner.paused(key):
            while not self._is_at_rest(log):  # each wait lets something else begin
                await self._moves.cancel(key)
                await log.wait_until_idle()
            yield

    def _is_at_rest(self, log: PartitionLog) -> bool:
        return log.may_relocate and not self._moves.is_under_way(log.topic_partition)

    def take_away(self, log: PartitionLog, retirement: LogDisposal) -> Path:
        """Take a log out of use, within `at_rest`; does not await, so that the caller can decide and act in one.

        The files are removed after `file.delete.delay.ms`, or kept. Returns their directory, for `sync_retired`.

        Raises:
            KafkaStorageError: its directory cannot be renamed; the log is as before.
        """
        key = log.topic_partition
        assert self._logs.get(key) is log, f"{key} is in use"
        # A flush, a copy or a swap of segments would go on in a directory that soon is another log's.
        assert self._is_at_rest(log), f"nothing works in the directory of {key}"
        target = log.directory.with_name(set_aside_name(key, retirement))
        try:
            log.directory.rename(target)
        except OSError as error:
            raise KafkaStorageError(f"Cannot rename {log.directory}: {error.strerror or error}") from error
        self._forget(key).abandon()
        if retirement is LogDisposal.DELETE:
            self.remove_later(target, log.config.file_delete_delay_ms)
            _logger.info("deleted a partition", partition=str(key), directory=str(target))
        else:
            _logger.warning(
                "the cluster has no such replica here: the partition is set aside and kept;"
                " remove the directory if its data is not needed",
                partition=str(key),
                directory=str(target),
            )
        return target

    async def sync_retired(self, path: Path) -> None:
        """Have the renaming of a directory survive a crash, before another log takes its former name."""
        try:
            await asyncio.to_thread(sync_directory, path.parent)
        except OSError as error:
            # After a crash the old name may be back, with the old topic id: the next start sets it aside.
            _logger.error("a renamed partition may come back", directory=str(path), problem=str(error))

    def _forget(self, topic_partition: TopicPartition) -> PartitionLog:
        self._homes.pop(topic_partition)
        return self._logs.pop(topic_partition)

    async def _write_first_dirty_offset(self, topic_partition: TopicPartition) -> None:
        directory = self._homes.get(topic_partition)
        if directory is not None:
            await self._checkpoints.write_first_dirty_offsets(directory)

    async def _announce_truncation(self, topic_partition: TopicPartition) -> None:
        directory = self._homes.get(topic_partition)
        if directory is not None:
            await self._checkpoints.announce_truncation(directory)

    # Moving between directories

    async def move(self, topic_partition: TopicPartition, path: Path) -> None:
        """Begin to move a log to another log directory; a move to a third one is given up.

        If there is no such log, it will be created in that directory, should it ever be.

        Raises:
            LogDirectoryNotFound: there is no such log directory.
            KafkaStorageError: it is offline, or another one is, in which a copy may lie already.
            ReplicaNotAvailable: there is no such log.
            InvalidTopic: the topic's name is too long.
        """
        target = next((directory for directory in self.directories if directory.path == path), None)
        if target is None:
            raise LogDirectoryNotFound(f"{path} is none of this broker's log directories")
        future_name(topic_partition)
        for directory in (target, *self.directories):
            if directory.error is not None:
                raise KafkaStorageError(f"A log directory is offline, so nothing can be moved: {directory.error}")
        log = self._logs.get(topic_partition)
        if log is None:
            self._prefer(topic_partition, target)
            raise ReplicaNotAvailable(f"{topic_partition} is not on this broker; it would be created in {path}")
        while self._moves.is_under_way(topic_partition):
            if self._moves.target_of(topic_partition) is target:
                return
            await self._moves.cancel(topic_partition)
        if target.error is not None:  # as it may have become while another move was given up
            raise KafkaStorageError(f"A log directory is offline, so nothing can be moved: {target.error}")
        if self._logs.get(topic_partition) is log and self._homes[topic_partition] is not target:
            self._moves.begin(log, self._homes[topic_partition], target)

    def _prefer(self, topic_partition: TopicPartition, target: LogDirectory) -> None:
        self._preferred.pop(topic_partition, None)
        self._preferred[topic_partition] = target
        if len(self._preferred) > _PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def _resume_move(self, topic_partition: TopicPartition, target: LogDirectory, path: Path) -> None:
        log = self._logs.get(topic_partition)
        if log is not None and self._homes[topic_partition] is not target:
            self._moves.begin(log, self._homes[topic_partition], target, path)

    def settle(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Note that a log lives in another directory from now on."""
        self._homes[log.topic_partition] = directory

    def remove_later(self, path: Path, delay_ms: int) -> None:
        """Remove a directory after a delay."""
        self._background.submit_later(delay_ms, partial(shutil.rmtree, path, ignore_errors=True))

    # Closing

    async def close(self) -> None:
        """Flush and close every log, write the checkpoints, and mark the directories as cleanly stopped."""
        await self._moves.close()
        await self.cleaner.stop()
        await self._duties.stop()
        await self._background.close()
        await asyncio.gather(*(self._close_directory(directory) for directory in self.directories.online()))
        self._release()

    async def _close_directory(self, directory: LogDirectory) -> None:
        logs = self.logs_in(directory)
        dirty = sum(log.needs_flush for log in logs.values())
        _logger.info("closing the logs", directory=str(directory.path), logs=len(logs), to_be_flushed=dirty)
        threads = ThreadPoolExecutor(self._settings.recovery_threads_per_directory, thread_name_prefix="closing")
        loop = asyncio.get_running_loop()
        try:
            outcomes = await asyncio.gather(
                *(loop.run_in_executor(threads, log.close) for log in logs.values()), return_exceptions=True
            )
            failures = [outcome for outcome in outcomes if outcome is not None]
            for failure in failures:
                if not isinstance(failure, KafkaStorageError):
                    raise failure
                _logger.error("a log could not be closed cleanly", problem=str(failure))
            await self._checkpoints.write_all(directory)
            if not failures:
                await loop.run_in_executor(threads, directory.mark_clean)
        except OSError as error:
            _logger.error("a directory could not be closed cleanly", problem=str(error))
        finally:
            threads.shutdown(wait=True)

    def _release(self) -> None:
        for log in self._logs.values():
            log.abandon()
        self.directories.release()
        self._executor.shutdown(wait=True)
