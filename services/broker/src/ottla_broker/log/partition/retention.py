"""Which segments a log may drop: the decisions of retention, apart from carrying them out. Pure.

Segments go oldest first and without gaps, so every decision is a number of segments. None goes that holds
records at or above the high watermark, since those are not known to be replicated. Source: the deletion rules
of Kafka's UnifiedLog.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ottla_core.topic_config import TopicConfig


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What retention needs to know of a segment.

    Attributes:
        end_offset: base offset of the next segment, or the log end offset for the active one.
        size_bytes: size of its records.
        timestamp_ms: largest record timestamp, or the file's time where records have none.
        is_active: whether it is the one being appended to.
    """

    end_offset: int
    size_bytes: int
    timestamp_ms: int
    is_active: bool


class DeletionReason(StrEnum):
    """Why segments go."""

    LOG_START_OFFSET = "log start offset passed them"
    RETENTION_BYTES = "retention.bytes"
    RETENTION_MS = "retention.ms"


@dataclass(frozen=True, slots=True)
class Deletion:
    """The oldest `segment_count` segments are to go for this reason."""

    segment_count: int
    reason: DeletionReason


def decide_deletion(
    segments: Sequence[SegmentFacts],
    config: TopicConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
) -> Deletion | None:
    """Return what to delete next, or None. An empty active segment always stays."""
    candidates = [
        segment
        for segment in segments
        if segment.end_offset <= high_watermark and not (segment.is_active and not segment.size_bytes)
    ]
    passed = _count_while(not segment.is_active and segment.end_offset <= log_start_offset for segment in candidates)
    if passed:
        return Deletion(passed, DeletionReason.LOG_START_OFFSET)
    if "delete" not in config.cleanup_policy:
        return None
    oversize = _count_oversize(segments, candidates, config.retention_bytes)
    if oversize:
        return Deletion(oversize, DeletionReason.RETENTION_BYTES)
    if config.retention_ms >= 0:
        expired = _count_while(now_ms - segment.timestamp_ms > config.retention_ms for segment in candidates)
        if expired:
            return Deletion(expired, DeletionReason.RETENTION_MS)
    return None


def _count_oversize(
    segments: Sequence[SegmentFacts], candidates: Sequence[SegmentFacts], retention_bytes: int
) -> int:
    """Count the segments without which the log still holds at least `retention_bytes`."""
    if retention_bytes < 0:
        return 0
    surplus = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for segment in candidates:
        surplus -= segment.size_bytes
        if surplus < 0:
            break
        count += 1
    return count


def _count_while(conditions: Iterable[bool]) -> int:
    count = 0
    for condition in conditions:
        if not condition:
            break
        count += 1
    return count
