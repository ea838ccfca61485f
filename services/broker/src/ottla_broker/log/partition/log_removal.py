"""What takes records away from a log: DeleteRecords, retention, and truncation.

Like everything of a log this runs on the event loop and never awaits. Reading, and whatever else needs a file
descriptor, comes before the first change, so for want of one nothing is removed by halves.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

import structlog

from ottla_broker.log.files.leader_epoch_checkpoint import LeaderEpochs
from ottla_broker.log.flushing.flush import LogFlush
from ottla_broker.log.flushing.storage_errors import StorageErrors
from ottla_broker.log.partition.local_log import LocalLog
from ottla_broker.log.partition.log_compaction import LogCompaction
from ottla_broker.log.partition.log_reader import LogReader
from ottla_broker.log.partition.truncation import LogTruncation
from ottla_broker.log.producers.producer_loading import read_producers, remove_snapshots
from ottla_broker.log.producers.producer_snapshot import snapshot_offsets, snapshot_path, write_snapshot
from ottla_broker.log.producers.producer_state import ProducerStates
from ottla_broker.log.segments.segment_list import SegmentList
from ottla_core.errors import KafkaStorageError, OffsetOutOfRange
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log")


class Removable(Protocol):
    """What is changed of a log from which records are removed."""

    topic_partition: TopicPartition
    directory: Path
    segments: SegmentList
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    lost_from: int | None
    leader_epochs: LeaderEpochs
    producers: ProducerStates
    compaction: LogCompaction
    truncation: LogTruncation

    def roll(self, now_ms: int) -> None:
        """Begin a new active segment, unless the present one is empty."""


class LogRemoval:
    """Removes records at either end of one log."""

    __slots__ = ("_errors", "_flush", "_local", "_log", "_reader")

    def __init__(
        self, log: Removable, local: LocalLog, reader: LogReader, flush: LogFlush, errors: StorageErrors
    ) -> None:
        self._log = log
        self._local = local
        self._reader = reader
        self._flush = flush
        self._errors = errors

    def delete_records_before(self, offset: int) -> int:
        """Move the log's start up to `offset` and return it; retention removes what lies before.

        Raises:
            OffsetOutOfRange: the offset is above the high watermark.
        """
        log = self._log
        if offset > log.high_watermark:
            raise OffsetOutOfRange(
                f"Cannot delete records of {log.topic_partition} before {offset}:"
                f" the high watermark is {log.high_watermark}"
            )
        self._raise_log_start_offset(offset)
        return log.log_start_offset

    def _raise_log_start_offset(self, offset: int) -> None:
        if offset > self._log.log_start_offset:
            self._log.log_start_offset = offset
            self._log.leader_epochs.truncate_from_start(offset, self._log.log_end_offset)

    def enforce_retention(self, now_ms: int) -> int:
        """Delete the segments that retention lets go; return how many.

        Raises:
            KafkaStorageError: the disk failed.
        """
        log = self._log
        self._flush.check_open()
        deleted = 0
        with self._errors.told("delete old segments of"):
            while (
                deletion := self._local.decide_deletion(
                    log.log_start_offset, log.log_end_offset, log.high_watermark, now_ms
                )
            ) is not None:
                count = deletion.segment_count
                if count == len(log.segments) == 1:
                    self._begin_behind_all(now_ms)
                elif count == len(log.segments):
                    count -= 1  # first, as a disk may be too full for another segment before these are gone
                self._reader.forget()
                self._keep_producers_before(log.segments[count].base_offset)
                try:
                    removed = self._local.delete_oldest(count)
                finally:
                    self._raise_log_start_offset(log.segments[0].base_offset)
                deleted += len(removed)
                _logger.info(
                    "deleted segments",
                    partition=str(log.topic_partition),
                    reason=deletion.reason.value,
                    base_offsets=[segment.base_offset for segment in removed],
                    bytes=sum(segment.size_bytes for segment in removed),
                )
        return deleted

    def _begin_behind_all(self, now_ms: int) -> None:
        """Begin a segment at the log's end, as the only one there is goes.

        A full disk may have room for the names of files and no more. So nothing else is written, unless producers are
        known, who need a snapshot.
        """
        log = self._log
        if len(log.producers):
            log.roll(now_ms)
            return
        self._local.roll(log.log_end_offset, now_ms, goes_at_once=True)
        if self._flush.failure is None:
            # What it is for goes; if it cannot begin, the next one moves the recovery point.
            with suppress(KafkaStorageError):
                self._flush.start(log.log_end_offset)

    def _keep_producers_before(self, offset: int) -> None:
        """Have a snapshot that knows the producers of the batches before an offset, which are to go."""
        log = self._log
        if len(log.producers) and max(snapshot_offsets(log.directory), default=-1) < offset:
            path = snapshot_path(log.directory, log.log_end_offset)
            write_snapshot(path, log.producers, sync=False)
            self._flush.add_snapshot(path)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove everything from `offset` on, as a follower does whose log departs from the leader's.

        To be done while `truncation.prepared`, or else it survives no crash and holds up the event loop; and nothing
        may be fetched from the new end before it is `truncation.settled`.

        Raises:
            KafkaStorageError: the disk failed.
        """
        log = self._log
        if offset >= log.log_end_offset:
            log.leader_epochs.truncate_from_end(offset)  # this replica may have led without appending anything
            self._is_whole_up_to(offset)
            return
        if offset < log.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        self._flush.check_open()
        found = log.truncation.found_below(offset)
        with self._errors.told("truncate"):
            producers = found.producers if found else self._read_producers(offset)
            planned = self._local.plan_cut(offset, found.largest if found else None)
            remove_snapshots(log.directory, log.segments, offset)
        self._flush.truncated_to(offset)
        self._reader.forget()
        with self._errors.told("truncate"), self._final_if_interrupted():
            self._local.truncate_to(offset, planned)
        self._end_at(offset, producers)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove everything and go on at `offset`, as a follower does that has fallen out of the leader's log.

        Raises:
            KafkaStorageError: the disk failed.
        """
        log = self._log
        self._flush.check_open()
        self._flush.truncated_to(offset)
        self._reader.forget()
        with self._errors.told("truncate"):
            for snapshot_offset in snapshot_offsets(log.directory):  # one at this offset is of the former history
                snapshot_path(log.directory, snapshot_offset).unlink()
            self._local.start_anew_at(offset, now_ms)
        log.leader_epochs.clear()
        log.log_start_offset = offset
        self._end_at(offset, ProducerStates(log.topic_partition))

    def _is_whole_up_to(self, offset: int) -> None:
        """Forget a loss of records that is behind the log's end, from where they are copied again."""
        if self._log.lost_from is not None and offset <= self._log.lost_from:
            self._log.lost_from = None

    def _read_producers(self, offset: int) -> ProducerStates:
        log = self._log
        return read_producers(
            log.topic_partition, log.directory, log.segments, offset=offset, log_end_offset=log.log_end_offset
        )

    @contextmanager
    def _final_if_interrupted(self) -> Iterator[None]:
        """Take no more records if a cut stops half-way: files that nobody knows of would come back at a start."""
        try:
            yield
        except OSError as error:
            self._flush.give_up(
                f"a truncation failed half-way in {self._log.directory.parent}: {error.strerror or error}"
            )
            raise

    def _end_at(self, offset: int, producers: ProducerStates) -> None:
        log = self._log
        log.log_end_offset = offset
        self._is_whole_up_to(offset)
        log.log_start_offset = min(log.log_start_offset, offset)
        log.high_watermark = min(log.high_watermark, offset)
        log.leader_epochs.truncate_from_end(offset)
        log.compaction.truncated_to(offset)
        log.producers = producers
