"""Which segments go, for which reason."""

from dataclasses import replace

from ottla_broker.log.partition.retention import Deletion, DeletionReason, SegmentFacts, decide_deletion
from ottla_core.topic_config import TopicConfig

NOW_MS = 1_000_000


def facts(*timestamps: int, size: int = 100) -> list[SegmentFacts]:
    """Segments of ten offsets each; the last one is active."""
    last = len(timestamps) - 1
    return [
        SegmentFacts((number + 1) * 10, size, timestamp, number == last)
        for number, timestamp in enumerate(timestamps)
    ]


def decide(
    segments: list[SegmentFacts], *, start: int = 0, high_watermark: int = 1000, **config: object
) -> Deletion | None:
    settings = replace(TopicConfig(), **{"retention_ms": -1, "retention_bytes": -1, **config})  # type: ignore[arg-type]
    return decide_deletion(segments, settings, log_start_offset=start, high_watermark=high_watermark, now_ms=NOW_MS)


def test_old_segments_go_up_to_the_first_young_one() -> None:
    old, young = NOW_MS - 501, NOW_MS - 500
    assert decide(facts(old, old, young, old), retention_ms=500) == Deletion(2, DeletionReason.RETENTION_MS)


def test_an_expired_active_segment_goes_unless_it_is_empty() -> None:
    assert decide(facts(0), retention_ms=1) == Deletion(1, DeletionReason.RETENTION_MS)
    assert decide(facts(0, size=0), retention_ms=1) is None


def test_size_keeps_at_least_retention_bytes() -> None:
    segments = facts(0, 0, 0, 0)
    assert decide(segments, retention_bytes=400) is None
    assert decide(segments, retention_bytes=301) is None
    assert decide(segments, retention_bytes=300) == Deletion(1, DeletionReason.RETENTION_BYTES)
    assert decide(segments, retention_bytes=0) == Deletion(4, DeletionReason.RETENTION_BYTES)


def test_segments_before_the_log_start_go_whatever_the_policy() -> None:
    segments = facts(0, 0, 0)
    assert decide(segments, start=19, cleanup_policy=frozenset({"compact"})) == Deletion(
        1, DeletionReason.LOG_START_OFFSET
    )
    assert decide(segments, start=20) == Deletion(2, DeletionReason.LOG_START_OFFSET)
    assert decide(segments, start=30) == Deletion(2, DeletionReason.LOG_START_OFFSET), "not the active one"


def test_compacted_topics_ignore_time_and_size() -> None:
    assert decide(facts(0, 0), retention_ms=1, retention_bytes=0, cleanup_policy=frozenset({"compact"})) is None


def test_nothing_goes_that_is_not_below_the_high_watermark() -> None:
    segments = facts(0, 0, 0)
    assert decide(segments, retention_ms=1, high_watermark=19) == Deletion(1, DeletionReason.RETENTION_MS)
    assert decide(segments, retention_ms=1, high_watermark=9) is None


def test_negative_limits_mean_no_limit() -> None:
    assert decide(facts(0, 0)) is None
