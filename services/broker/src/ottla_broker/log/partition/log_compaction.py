"""Compaction as one log sees it: how far it has come, what a round needs, and putting the result into place.

Like everything of a log this runs on the event loop and never awaits. `assess` says what could be done, `begin`
makes a job of it, which somebody else does (`segment_cleaning.py`), and the round takes back each cleaned segment as
it is ready. In between the log goes on: it is appended to, rolled, retained, even truncated or deleted. So before
each swap the round makes sure that the segments are still those that it was made for.

Segments are swapped oldest first, and a round that cannot swap one ends there. A tombstone therefore never goes
before what it deletes. Who sees a round through has each swap on the disk before the next one. The first dirty offset
moves on only when a round has swapped all of them.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import structlog

from ottla_broker.log.compaction.cleaned_transactions import AbortedRange
from ottla_broker.log.compaction.compaction import Assessment, CompactionFacts, CompactionSegment, assess
from ottla_broker.log.compaction.segment_cleaning import CleanedSegment, CleaningJob
from ottla_broker.log.flushing.flush import LogFlush
from ottla_broker.log.partition.local_log import LocalLog
from ottla_broker.log.partition.log_reader import LogReader
from ottla_broker.log.partition.log_transactions import LogTransactions
from ottla_broker.log.producers.producer_state import ProducerStates
from ottla_broker.log.segments.segment import LogSegment
from ottla_broker.log.segments.segment_list import SegmentList
from ottla_broker.log.segments.segment_swap import SwapInterrupted
from ottla_core.config_definition import INT64_MAX
from ottla_core.errors import KafkaStorageError, NotLeaderOrFollower
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log.compaction")


class RoundGivenUp(Exception):
    """The log has changed so that what the round has made of it does not fit any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLimits:
    """What one round may use.

    Attributes:
        map_bytes: memory for keys.
        map_load_factor: the share of it that may be used.
        buffer_bytes: how much is read and written at a time.
        bytes_per_second: the most to read and write, or None.
    """

    map_bytes: int = 128 * 1024 * 1024
    map_load_factor: float = 0.9
    buffer_bytes: int = 512 * 1024
    bytes_per_second: float | None = None


class Compactable(Protocol):
    """What compaction needs of a log."""

    topic_partition: TopicPartition
    directory: Path
    config: TopicConfig
    segments: SegmentList
    log_start_offset: int
    log_end_offset: int
    producers: ProducerStates
    transactions: LogTransactions


class LogCompaction:
    """The compaction of one log.

    Attributes:
        first_dirty_offset: everything below has been compacted; None if nothing ever was.
    """

    __slots__ = ("_flush", "_local", "_log", "_reader", "first_dirty_offset")

    def __init__(
        self, log: Compactable, local: LocalLog, reader: LogReader, flush: LogFlush, first_dirty_offset: int | None
    ) -> None:
        self.first_dirty_offset = first_dirty_offset
        self._log = log
        self._local = local
        self._reader = reader
        self._flush = flush

    def truncated_to(self, offset: int) -> None:
        """Note that the log lost everything from `offset` on."""
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)

    def assess(self, now_ms: int) -> Assessment:
        """Return what may be done; a first dirty offset that cannot be is corrected.

        Raises:
            OSError: an index cannot be read.
            CorruptMessage: a segment does not begin with a batch.
        """
        log = self._log
        assessment = assess(self._facts(), log.config, now_ms)
        if assessment.reset_reason is not None:
            is_routine = "delete" in log.config.cleanup_policy and assessment.first_dirty_offset > (
                self.first_dirty_offset or 0
            )
            if not is_routine:
                _logger.warning(
                    "the first dirty offset cannot be right; compaction begins anew at the log's start",
                    partition=str(log.topic_partition),
                    first_dirty_offset=self.first_dirty_offset,
                    reason=assessment.reset_reason,
                )
            self.first_dirty_offset = assessment.first_dirty_offset
        return assessment

    def _facts(self) -> CompactionFacts:
        log = self._log
        wants_first_timestamps = log.config.max_compaction_lag_ms < INT64_MAX
        wants_largest_timestamps = log.config.min_compaction_lag_ms > 0
        dirty_number = log.segments.number_for(self.first_dirty_offset or log.log_start_offset)
        return CompactionFacts(
            segments=[
                _segment_facts(
                    segment,
                    with_first_timestamp=wants_first_timestamps and number >= dirty_number,
                    with_largest_timestamp=wants_largest_timestamps and number >= dirty_number,
                )
                for number, segment in enumerate(log.segments)
            ],
            first_dirty_offset=self.first_dirty_offset,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=log.transactions.last_stable_offset,
            recovery_point=self._flush.recovery_point,
        )

    def make_durable(self) -> None:
        """Begin an fsync of the inactive segments if they wait for one, as only durable ones are compacted."""
        end = self._log.segments.active.base_offset
        if self._flush.recovery_point < end and self._flush.is_idle:
            with suppress(KafkaStorageError, NotLeaderOrFollower):  # logged; until then nothing is compacted
                self._flush.start(end)

    def begin(self, assessment: Assessment, limits: RoundLimits, now_ms: int) -> "CompactionRound":
        """Return a round over what an assessment of this moment says may be cleaned; raises OSError."""
        log = self._log
        config = log.config
        segments = [segment for segment in log.segments if segment.base_offset < assessment.end_offset]
        job = CleaningJob(
            directory=str(log.directory),
            segments=[_segment_facts(segment) for segment in segments],
            first_dirty_offset=assessment.first_dirty_offset,
            end_offset=assessment.end_offset,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            last_offsets={entry.producer_id: entry.last_offset for entry in log.producers if entry.last_offset >= 0},
            last_markers={
                entry.producer_id: entry.producer_epoch for entry in log.producers if entry.last_offset < 0
            },
            aborted_beyond=[
                AbortedRange(*entry[1:])
                for entry in log.transactions.aborted_entries(assessment.end_offset, assessment.end_offset)
            ],
            map_bytes=limits.map_bytes,
            map_load_factor=limits.map_load_factor,
            buffer_bytes=limits.buffer_bytes,
            bytes_per_second=limits.bytes_per_second,
        )
        return CompactionRound(self, job, segments)

    # For the rounds

    @property
    def truncation_count(self) -> int:
        """How often the log was truncated."""
        return self._flush.truncation_count

    def holds(self, segments: Sequence[LogSegment]) -> bool:
        """Return whether these neighbours are still in the log, which is still to be compacted."""
        if self._flush.is_closed or "compact" not in self._log.config.cleanup_policy:
            return False
        row = self._log.segments
        number = row.number_for(segments[0].base_offset)
        present = list(row)[number : number + len(segments)]
        return len(present) == len(segments) and all(a is b for a, b in zip(present, segments, strict=True))

    def swap(self, replaced: Sequence[LogSegment], cleaned: CleanedSegment, now_ms: int) -> None:
        """Put a cleaned segment in place of these; raises OSError, and then nothing has changed.

        After a swap that was interrupted the log takes no more records, so that a replica takes over that has all of
        its files.
        """
        self._reader.forget()
        try:
            self._local.replace(replaced, cleaned.size_bytes, now_ms)
        except SwapInterrupted as error:
            self._flush.give_up(
                f"a swap of compaction was interrupted in {self._log.directory.parent}: {error.strerror or error}"
            )
            raise


class CompactionRound:
    """One round under way.

    Attributes:
        job: what is to be done.
    """

    def __init__(self, compaction: LogCompaction, job: CleaningJob, segments: Sequence[LogSegment]) -> None:
        self.job: Final = job
        self._compaction = compaction
        self._waiting = list(segments)
        self._truncation_count = compaction.truncation_count

    @property
    def is_current(self) -> bool:
        """Whether the log is still the one that the round was made for, as far as it has not been swapped."""
        if self._compaction.truncation_count != self._truncation_count:
            return False
        return not self._waiting or self._compaction.holds(self._waiting)

    def swap(self, cleaned: CleanedSegment, now_ms: int) -> None:
        """Put the next cleaned segment into place.

        Raises:
            RoundGivenUp: the log has changed too much.
            OSError: the disk refused; the log is as before.
        """
        if not self.is_current:
            raise RoundGivenUp
        replaced = self._waiting[: cleaned.replaced_count]
        assert replaced[0].base_offset == cleaned.base_offset, "segments are cleaned in order"
        self._compaction.swap(replaced, cleaned, now_ms)
        del self._waiting[: cleaned.replaced_count]

    def finish(self, end_offset: int) -> None:
        """Note that all that the round could take in has been compacted.

        Raises:
            RoundGivenUp: the log was truncated meanwhile.
        """
        if self._compaction.truncation_count != self._truncation_count:
            raise RoundGivenUp
        self._compaction.first_dirty_offset = end_offset


def _segment_facts(
    segment: LogSegment, *, with_first_timestamp: bool = False, with_largest_timestamp: bool = False
) -> CompactionSegment:
    return CompactionSegment(
        base_offset=segment.base_offset,
        size_bytes=segment.size_bytes,
        largest_timestamp_ms=segment.largest_timestamp().timestamp if with_largest_timestamp else -1,
        first_timestamp_ms=segment.first_timestamp() if with_first_timestamp else -1,
        offset_index_bytes=segment.offset_index.size_bytes,
        time_index_bytes=segment.time_index.size_bytes,
    )
