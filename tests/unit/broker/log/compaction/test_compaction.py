"""When a log is compacted, from where to where, and which segments become one."""

from dataclasses import replace
from typing import Any

import pytest

from ottla_broker.log.compaction.compaction import CompactionFacts, CompactionSegment, assess, group_segments
from ottla_core.topic_config import TopicConfig

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CONFIG = TopicConfig(cleanup_policy=frozenset({"compact"}))


def facts(*sizes: int, **known: Any) -> CompactionFacts:
    """A log of segments of these sizes, of which each holds 100 offsets; the last one is active."""
    end = 100 * len(sizes)
    segments = [CompactionSegment(number * 100, size) for number, size in enumerate(sizes)]
    whole = CompactionFacts(
        segments=segments, first_dirty_offset=None, log_start_offset=0, log_end_offset=end, last_stable_offset=end,
        recovery_point=end,
    )  # fmt: skip
    return replace(whole, **known)


def test_a_log_that_was_never_compacted_is_dirty_up_to_its_active_segment() -> None:
    found = assess(facts(10, 20, 30), CONFIG, NOW_MS)
    assert (found.first_dirty_offset, found.end_offset) == (0, 200)
    assert (found.clean_bytes, found.cleanable_bytes, found.dirty_ratio, found.is_due) == (0, 30, 1.0, True)


def test_a_log_is_due_when_its_dirty_part_outgrows_the_ratio() -> None:
    even = assess(facts(10, 10, 5, first_dirty_offset=100), CONFIG, NOW_MS)
    assert (even.dirty_ratio, even.is_due) == (0.5, False)
    assert assess(facts(10, 11, 5, first_dirty_offset=100), CONFIG, NOW_MS).is_due


def test_the_active_segment_alone_is_never_due() -> None:
    assert not assess(facts(10), CONFIG, NOW_MS).is_due
    assert not assess(facts(10, 10, first_dirty_offset=100), CONFIG, NOW_MS).is_due


def test_empty_segments_alone_are_never_due() -> None:
    assert not assess(facts(0, 0, 5), replace(CONFIG, min_cleanable_dirty_ratio=0.0), NOW_MS).is_due


@pytest.mark.parametrize("limit", ["last_stable_offset", "recovery_point"])
@pytest.mark.parametrize(("offset", "end"), [(0, 0), (99, 0), (100, 100), (150, 100), (250, 200), (400, 300)])
def test_nothing_is_compacted_that_is_not_replicated_and_durable(limit: str, offset: int, end: int) -> None:
    assert assess(facts(1, 1, 1, 1, **{limit: offset}), CONFIG, NOW_MS).end_offset == end


def test_a_round_that_filled_its_map_is_gone_on_with_in_the_middle_of_a_segment() -> None:
    found = assess(facts(10, 10, 10, 5, first_dirty_offset=150), CONFIG, NOW_MS)
    assert (found.first_dirty_offset, found.end_offset, found.clean_bytes, found.cleanable_bytes) == (
        150,
        300,
        20,
        20,
    )


def test_records_younger_than_the_least_lag_are_left_alone() -> None:
    young = CompactionSegment(100, 10, largest_timestamp_ms=NOW_MS - 1000)
    old = [CompactionSegment(0, 10, largest_timestamp_ms=NOW_MS - DAY_MS), young, CompactionSegment(200, 10)]
    known = facts(10, 10, 10, segments=old)
    assert assess(known, CONFIG, NOW_MS).end_offset == 200
    assert assess(known, replace(CONFIG, min_compaction_lag_ms=DAY_MS), NOW_MS).end_offset == 100
    assert assess(known, replace(CONFIG, min_compaction_lag_ms=999), NOW_MS).end_offset == 200


def test_a_record_older_than_the_greatest_lag_makes_its_log_due() -> None:
    segments = [CompactionSegment(0, 1000), CompactionSegment(100, 1, first_timestamp_ms=NOW_MS - DAY_MS)]
    known = facts(1, 1, 1, segments=[*segments, CompactionSegment(200, 1)], first_dirty_offset=100)
    patient = assess(known, replace(CONFIG, max_compaction_lag_ms=DAY_MS), NOW_MS)
    assert (patient.overdue_ms, patient.is_due) == (0, False)
    overdue = assess(known, replace(CONFIG, max_compaction_lag_ms=DAY_MS - 5), NOW_MS)
    assert (overdue.overdue_ms, overdue.is_due) == (5, True)


@pytest.mark.parametrize(
    ("checkpoint", "reason"), [(50, "before the log's start, 120"), (301, "beyond the log's end, 300")]
)
def test_a_checkpoint_outside_the_log_is_not_believed(checkpoint: int, reason: str) -> None:
    found = assess(facts(1, 1, 1, first_dirty_offset=checkpoint, log_start_offset=120), CONFIG, NOW_MS)
    assert found.first_dirty_offset == 120
    assert found.reset_reason is not None
    assert reason in found.reset_reason


def group(*segments: CompactionSegment, end_offset: int = 2**40, **limits: int) -> list[list[int]]:
    bounds = {"segment_bytes": 100, "index_bytes": 100, **limits}
    return [
        [segment.base_offset for segment in found]
        for found in group_segments(segments, end_offset=end_offset, **bounds)
    ]


def test_small_neighbours_become_one_segment() -> None:
    segments = [CompactionSegment(base, size) for base, size in [(0, 60), (10, 40), (20, 1), (30, 99), (40, 100)]]
    assert group(*segments, end_offset=50) == [[0, 10], [20, 30], [40]]


def test_groups_keep_to_the_size_of_either_index() -> None:
    segments = [CompactionSegment(base, 1, offset_index_bytes=40, time_index_bytes=60) for base in (0, 1, 2)]
    assert group(*segments, end_offset=3) == [[0], [1], [2]]
    assert group(*segments, end_offset=3, index_bytes=120) == [[0, 1], [2]]


def test_groups_keep_to_offsets_that_the_indexes_can_hold() -> None:
    far = 2**31
    segments = [CompactionSegment(base, 1) for base in (0, 5, far - 5)]
    assert group(*segments, end_offset=far) == [[0, 5, far - 5]]
    assert group(*segments, end_offset=far + 1) == [[0, 5], [far - 5]]


def test_a_segment_larger_than_the_limit_stays_by_itself() -> None:
    assert group(CompactionSegment(0, 500), CompactionSegment(1, 1)) == [[0], [1]]
