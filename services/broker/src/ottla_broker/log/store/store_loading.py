"""Loading a directory's logs when a store is opened: what its checkpoints say of them, and the threads for it."""

import asyncio
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from ottla_broker.log.background import Background
from ottla_broker.log.directories.log_creation import holds_nothing, topic_id_in
from ottla_broker.log.directories.log_directory import LogDirectory
from ottla_broker.log.files.storage_problems import StorageProblems
from ottla_broker.log.loading.log_loading import LoadRequest
from ottla_broker.log.loading.lost_records import forget_lost_from
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.segment_file import OpenFiles
from ottla_broker.log.store.log_duties import LogStoreSettings
from ottla_core.clock import Clock
from ottla_core.cluster.state.model import NO_EPOCH
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log.store")

ConfigFor = Callable[[str], TopicConfig]
Hold = Callable[[LogDirectory, PartitionLog], None]
"""Takes over a log that was loaded; called in threads, of which no two are at the same partition."""


@dataclass(frozen=True, slots=True)
class LogOpeningSettings:
    """What all logs of a store are opened with."""

    clock: Clock
    settings: LogStoreSettings
    open_files: OpenFiles
    background: Background
    storage_problems: StorageProblems

    def request(
        self,
        topic_partition: TopicPartition,
        path: Path,
        config: TopicConfig,
        *,
        was_clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        first_dirty_offset: int | None = None,
        fsync_failed: bool = False,
    ) -> LoadRequest:
        """Return what is needed to open one log, of which nothing more is known by default."""
        return LoadRequest(
            topic_partition=topic_partition,
            directory=path,
            config=config,
            open_files=self.open_files,
            now_ms=self.clock.time_ms(),
            was_clean=was_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            producer_expiration_ms=self.settings.producer_expiration_ms,
            first_dirty_offset=first_dirty_offset,
            fsync_failed=fsync_failed,
            storage_problems=self.storage_problems,
        )

    async def load_logs(self, directory: LogDirectory, config_for: ConfigFor, hold: Hold) -> None:
        """Load a directory's logs in threads, all of which have ended when this returns or raises.

        Raises:
            OSError: the disk failed.
            ConfigurationError: `hold` refuses a log.
        """
        threads = ThreadPoolExecutor(self.settings.recovery_threads_per_directory, thread_name_prefix="recovery")
        loop = asyncio.get_running_loop()
        try:
            retired = await loop.run_in_executor(threads, directory.retired_partitions)
            await loop.run_in_executor(threads, directory.remove_leftovers)
            requests = await loop.run_in_executor(threads, self._load_requests, directory, config_for, retired)
            lost_from = directory.read_offsets(directory.lost_records)
            uncertain_ends = directory.read_offsets(directory.uncertain_ends)
            loaded = await asyncio.gather(
                *(
                    loop.run_in_executor(
                        threads, partial(self._load, directory, request, high_watermark, lost_from, hold)
                    )
                    for request, high_watermark in requests
                )
            )
            lacking = [log for log in loaded if log is not None and log.lost_from is not None]
            await loop.run_in_executor(threads, _take_note_of, directory, lacking)
            await loop.run_in_executor(
                threads, _doubt_ends, directory, [log for log in loaded if log is not None], uncertain_ends
            )
            if directory.lost:  # the next start has to know as well, whatever the other checkpoints say by then
                await loop.run_in_executor(threads, directory.lost_logs.write, dict(directory.lost))
        finally:
            threads.shutdown(wait=True, cancel_futures=True)

    def _load_requests(
        self, directory: LogDirectory, config_for: ConfigFor, retired: set[TopicPartition]
    ) -> list[tuple[LoadRequest, int]]:
        recovery_points = directory.read_offsets(directory.recovery_points)
        log_start_offsets = directory.read_offsets(directory.log_start_offsets)
        high_watermarks = directory.read_offsets(directory.high_watermarks)
        first_dirty_offsets = directory.read_offsets(directory.first_dirty_offsets)
        partitions = dict(directory.partitions())
        directory.lost = {
            name: offset
            for name, offset in high_watermarks.items()
            if offset > 0 and name not in partitions and name not in retired
        } | directory.read_offsets(directory.lost_logs)
        return [
            (
                self.request(
                    topic_partition,
                    path,
                    config_for(topic_partition.topic),
                    was_clean=directory.was_clean,
                    recovery_point=recovery_points.get(topic_partition, 0),
                    log_start_offset=log_start_offsets.get(topic_partition, 0),
                    first_dirty_offset=first_dirty_offsets.get(topic_partition),
                    fsync_failed=directory.fsync_failed,
                ),
                high_watermarks.get(topic_partition, 0),
            )
            for topic_partition, path in partitions.items()
        ]

    def _load(
        self,
        directory: LogDirectory,
        request: LoadRequest,
        high_watermark: int,
        lost_from: Mapping[TopicPartition, int],
        hold: Hold,
    ) -> PartitionLog | None:
        topic_id = topic_id_in(request.directory)
        if topic_id is None and holds_nothing(request.directory):
            _logger.warning("nothing is left of a log, which is begun anew", directory=str(request.directory))
            shutil.rmtree(request.directory)
            if high_watermark > 0:
                directory.lost[request.topic_partition] = high_watermark
            return None
        log = PartitionLog.open(request, topic_id, self.background)
        log.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        if high_watermark > 0 == log.log_end_offset:
            directory.lost[log.topic_partition] = high_watermark
        elif topic_id is None and log.log_end_offset > 0:
            # It will be set aside, as nobody knows whose records these are, and the one in its place will be empty.
            directory.lost[log.topic_partition] = max(high_watermark, log.log_end_offset)
        known = [offset for offset in (log.lost_from, lost_from.get(log.topic_partition)) if offset is not None]
        former_end_offset = max(high_watermark, request.recovery_point)
        if former_end_offset > log.log_end_offset > 0 and directory.intact_since != NO_EPOCH:
            # After a power failure the cluster knows that anything may be missing.
            _logger.error(
                "the end of a log is lost: it had been committed, or fsynced, further",
                partition=str(log.topic_partition), log_end_offset=log.log_end_offset, up_to=former_end_offset,
            )  # fmt: skip
            known.append(log.log_end_offset)
        if log.may_have_gap and directory.intact_since == NO_EPOCH:
            # By its end alone such a log would pass for complete once it has caught up.
            _logger.warning(
                "a log may lack records in the middle, as not all segments before its last one had been fsynced",
                partition=str(log.topic_partition), from_offset=log.recovery_point,
            )  # fmt: skip
            known.append(max(log.recovery_point, log.log_start_offset))
        log.lost_from = min(known, default=None)
        hold(directory, log)
        return log


def _take_note_of(directory: LogDirectory, lacking: Sequence[PartitionLog]) -> None:
    """Write down from where on logs lack records, before the notes in their directories go.

    The broker registers as after an unclean shutdown: nothing else keeps one of these logs from being elected by a
    controller that sees nobody else yet, and the disk may have lost more.
    """
    offsets = {log.topic_partition: log.lost_from for log in lacking if log.lost_from is not None}
    if offsets:
        directory.lost_records.write(offsets)
        directory.intact_since = NO_EPOCH
    for log in lacking:
        forget_lost_from(log.directory)


def _doubt_ends(directory: LogDirectory, logs: Sequence[PartitionLog], known: Collection[TopicPartition]) -> None:
    """Note which logs may lack their ends: all of them after an unclean shutdown, and those known to from before.

    Written before the registration, which is what the controller has to know: it hears of an unclean shutdown once.
    """
    for log in logs:
        log.may_lack_end = directory.intact_since == NO_EPOCH or log.topic_partition in known
    uncertain = {log.topic_partition: log.log_end_offset for log in logs if log.may_lack_end}
    if uncertain:
        directory.uncertain_ends.write(uncertain)
