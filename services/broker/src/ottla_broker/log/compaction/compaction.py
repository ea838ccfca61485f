"""When a log is compacted, from where to where, and which segments become one: the decisions, apart from the work.

The part of a log below the first dirty offset has been compacted before; what follows is dirty. A round takes in the
keys of the dirty part, then rewrites all segments up to its end without the records that those keys supersede. It
ends at a segment boundary, before the active segment, before anything that is not replicated or not fsynced, before
the first open transaction, and before what is younger than `min.compaction.lag.ms`. A round is due when the dirty
part outgrows `min.cleanable.dirty.ratio`, or has a record older than `max.compaction.lag.ms`.

That only durable records count is stricter than Kafka: a record may supersede another one, which is then gone for
good, only if no power failure can take it back. Source of the rest: Kafka's LogCleanerManager and LogCleaner.

Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from ottla_core.config_definition import INT32_MAX, INT64_MAX
from ottla_core.topic_config import TopicConfig

NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True)
class CompactionSegment:
    """What compaction needs to know of a segment.

    Attributes:
        base_offset: its base offset.
        size_bytes: size of its records.
        largest_timestamp_ms: its largest timestamp, or -1.
        first_timestamp_ms: its first batch's timestamp, or -1; looked up only where `max.compaction.lag.ms` counts.
        offset_index_bytes, time_index_bytes: sizes of its indexes.
    """

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int = NO_TIMESTAMP
    first_timestamp_ms: int = NO_TIMESTAMP
    offset_index_bytes: int = 0
    time_index_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFacts:
    """What compaction needs to know of a log.

    Attributes:
        segments: all of them, the active one last.
        first_dirty_offset: how far the last rounds came, or None if there was none.
        log_start_offset, log_end_offset, last_stable_offset: the log's.
        recovery_point: everything below is fsynced.
    """

    segments: Sequence[CompactionSegment]
    first_dirty_offset: int | None
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    recovery_point: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What may be done to a log.

    Attributes:
        first_dirty_offset: where the dirty part begins.
        end_offset: a segment's base offset, up to which a round may go.
        clean_bytes, cleanable_bytes: what lies before the dirty part, and what of it may be cleaned.
        dirty_ratio: the share of these two that is dirty.
        overdue_ms: by how much the oldest dirty record exceeds `max.compaction.lag.ms`.
        is_due: a round should begin.
        reset_reason: why the first dirty offset is not what it was said to be, or None.
    """

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    dirty_ratio: float
    overdue_ms: int
    is_due: bool
    reset_reason: str | None


def first_dirty_offset(facts: CompactionFacts) -> tuple[int, str | None]:
    """Return where the dirty part begins, and why the checkpoint is not believed, if it is not."""
    checkpoint, start = facts.first_dirty_offset, facts.log_start_offset
    if checkpoint is None:
        return start, None
    if checkpoint < start:
        return start, f"it lies before the log's start, {start}"
    if checkpoint > facts.log_end_offset:
        return start, f"it lies beyond the log's end, {facts.log_end_offset}"
    return checkpoint, None


def assess(facts: CompactionFacts, config: TopicConfig, now_ms: int) -> Assessment:
    """Return what may be cleaned and whether it should be."""
    dirty_from, reset_reason = first_dirty_offset(facts)
    segments = facts.segments
    end_offset = _end_offset(facts, config, dirty_from, now_ms)
    cleanable_from = _base_of_segment_with(segments, min(dirty_from, end_offset))
    clean_bytes = sum(segment.size_bytes for segment in segments if segment.base_offset < dirty_from)
    cleanable_bytes = sum(
        segment.size_bytes for segment in segments if cleanable_from <= segment.base_offset < end_offset
    )
    overdue_ms = _overdue_ms(segments[:-1], config, dirty_from, now_ms)
    total_bytes = clean_bytes + cleanable_bytes
    dirty_ratio = cleanable_bytes / total_bytes if total_bytes else 0.0
    return Assessment(
        first_dirty_offset=dirty_from,
        end_offset=end_offset,
        clean_bytes=clean_bytes,
        cleanable_bytes=cleanable_bytes,
        dirty_ratio=dirty_ratio,
        overdue_ms=overdue_ms,
        is_due=end_offset > dirty_from
        and cleanable_bytes > 0
        and (overdue_ms > 0 or dirty_ratio > config.min_cleanable_dirty_ratio),
        reset_reason=reset_reason,
    )


def _end_offset(facts: CompactionFacts, config: TopicConfig, dirty_from: int, now_ms: int) -> int:
    """Return the base offset of the first segment that must be left alone."""
    segments = facts.segments
    limit = min(facts.last_stable_offset, facts.recovery_point, segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        dirty_base = _base_of_segment_with(segments, dirty_from)
        for segment in segments[:-1]:
            is_young = segment.largest_timestamp_ms > now_ms - config.min_compaction_lag_ms
            if segment.base_offset >= dirty_base and is_young:
                limit = min(limit, segment.base_offset)
                break
    return _base_of_segment_with(segments, limit)


def _base_of_segment_with(segments: Sequence[CompactionSegment], offset: int) -> int:
    """Return the base offset of the segment that holds an offset, or of the first one."""
    held = takewhile(lambda segment: segment.base_offset <= offset, segments)
    return max((segment.base_offset for segment in held), default=segments[0].base_offset)


def _overdue_ms(inactive: Sequence[CompactionSegment], config: TopicConfig, dirty_from: int, now_ms: int) -> int:
    """Return by how much the oldest dirty record exceeds `max.compaction.lag.ms`; 0 if it does not."""
    if config.max_compaction_lag_ms == INT64_MAX or not inactive:
        return 0
    dirty_base = _base_of_segment_with(inactive, dirty_from)
    timestamps = [
        segment.first_timestamp_ms
        for segment in inactive
        if segment.base_offset >= dirty_base and segment.first_timestamp_ms > 0
    ]
    return max(0, now_ms - config.max_compaction_lag_ms - min(timestamps)) if timestamps else 0


def group_segments(
    segments: Sequence[CompactionSegment], *, end_offset: int, segment_bytes: int, index_bytes: int
) -> list[list[CompactionSegment]]:
    """Return which of the segments to be cleaned become one, so that small ones do not pile up.

    A group fits `segment_bytes` and `index_bytes` as it is, and its offsets fit the indexes' 32 bits.

    Args:
        segments: those to be cleaned, ascending.
        end_offset: no record of theirs reaches it.
        segment_bytes: `segment.bytes`.
        index_bytes: `segment.index.bytes`.
    """
    groups: list[list[CompactionSegment]] = []
    sizes = (0, 0, 0)
    end_offsets = [segment.base_offset for segment in segments[1:]] + [end_offset]
    for segment, segment_end in zip(segments, end_offsets, strict=True):
        own = (segment.size_bytes, segment.offset_index_bytes, segment.time_index_bytes)
        together = (sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2])
        if (
            groups
            and together[0] <= segment_bytes
            and max(together[1:]) <= index_bytes
            and (segment.size_bytes == 0 or segment_end - 1 - groups[-1][0].base_offset <= INT32_MAX)
        ):
            groups[-1].append(segment)
            sizes = together
        else:
            groups.append([segment])
            sizes = own
    return groups
