"""Into which ranges a batch is cut, how far it goes, and when it waits."""

from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla_spark.datasource.limits import BatchDelay, limited
from ottla_spark.datasource.offsets import TopicOffsets
from ottla_spark.datasource.ranges import OffsetRange, cut, ranges_between

PARTITIONS = st.integers(0, 40).map(lambda number: ("t", number))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 10**6), min_size=1)
MINIMUM = st.none() | st.integers(1, 200)
RANGES = st.dictionaries(
    st.integers(0, 40), st.tuples(st.integers(0, 2**40), st.integers(1, 10**6)), min_size=1, max_size=12
).map(
    lambda found: [OffsetRange("t", number, start, start + size) for number, (start, size) in sorted(found.items())]
)


def pieces(*sizes: int, partitions_min: int | None = None, records_max: int | None = None) -> list[int]:
    ranges = [OffsetRange("t", number, 100, 100 + size) for number, size in enumerate(sizes)]
    return [each.size for each in cut(ranges, partitions_min=partitions_min, records_per_partition_max=records_max)]


def test_there_is_one_range_per_partition_unless_more_are_asked_for() -> None:
    assert pieces(5, 1000) == [5, 1000]
    assert pieces(5, 1000, partitions_min=2) == [5, 1000]


def test_long_ranges_are_cut_in_proportion_and_short_ones_stay_whole() -> None:
    assert pieces(100, partitions_min=3) == [33, 33, 34]
    assert pieces(100, 100, 1, partitions_min=5) == [50, 50, 50, 50, 1]
    assert pieces(1, 1000, partitions_min=4) == [1, 333, 333, 334]


def test_no_range_is_longer_than_asked_for_even_if_that_makes_more_than_the_minimum() -> None:
    assert pieces(10, 3, records_max=4) == [3, 3, 4, 3]
    assert pieces(10, 3, records_max=4, partitions_min=2) == [3, 3, 4, 3]
    assert len(pieces(1000, records_max=500, partitions_min=10)) == 10


@given(RANGES, MINIMUM, MINIMUM)
def test_pieces_cover_every_offset_once_and_in_order(
    ranges: list[OffsetRange], partitions_min: int | None, parts: int | None
) -> None:
    records_max = None if parts is None else max(each.size for each in ranges) // parts + 1
    found = cut(ranges, partitions_min=partitions_min, records_per_partition_max=records_max)
    for whole in ranges:
        own = [each for each in found if each.partition == whole.partition]
        assert own[0].start == whole.start
        assert own[-1].end == whole.end
        assert all(before.end == after.start for before, after in pairwise(own))
    assert all(0 < each.size <= (records_max or each.size) for each in found)


def test_ranges_that_are_empty_run_backwards_or_have_no_start_are_left_out() -> None:
    start = {("t", 0): 5, ("t", 1): 7, ("t", 2): 9}
    end = {("t", 3): 4, ("t", 2): 9, ("t", 1): 6, ("t", 0): 8}
    assert ranges_between(start, TopicOffsets(end)) == [OffsetRange("t", 0, 5, 8)]


def test_every_piece_of_a_range_says_of_which_topic_it_is() -> None:
    ranges = ranges_between({("t", 0): 0}, TopicOffsets({("t", 0): 4}, {"t": "QmYh"}))
    assert [each.topic_id for each in cut(ranges, partitions_min=2, records_per_partition_max=None)] == ["QmYh"] * 2


def test_a_limit_is_spread_in_proportion_and_starves_nobody() -> None:
    start = {("t", 0): 100, ("t", 1): 0, ("t", 2): 50}
    latest = {("t", 0): 1000, ("t", 1): 100, ("t", 2): 51}
    assert limited(start, latest, 100) == {("t", 0): 189, ("t", 1): 9, ("t", 2): 51}


@given(OFFSETS, OFFSETS, st.integers(1, 10**7))
def test_a_limited_batch_goes_on_but_never_too_far(
    start: dict[tuple[str, int], int], grown: dict[tuple[str, int], int], limit: int
) -> None:
    latest = {each: offset + grown.get(each, 0) for each, offset in start.items()}
    end = limited(start, latest, limit)
    total = sum(latest[each] - start[each] for each in latest)
    assert all(start[each] <= end[each] <= latest[each] for each in latest)
    assert all(end[each] > start[each] for each in latest if latest[each] > start[each])
    assert sum(end[each] - start[each] for each in end) <= max(limit, 0) + len(latest)
    for each, latest_offset in latest.items():
        share = Fraction(min(limit, total) * (latest_offset - start[each]), max(total, 1))
        assert abs(end[each] - start[each] - share) <= 1


def test_the_first_batch_never_waits_and_later_ones_for_enough_offsets_or_the_longest_delay() -> None:
    delay = BatchDelay(offsets_min=10, delay_max_ms=1000)
    start = {("t", 0): 5}
    assert not delay.waits(start, {("t", 0): 6}, now_ms=0)
    assert delay.waits(start, {("t", 0): 14}, now_ms=999)
    assert not delay.waits(start, {("t", 0): 15}, now_ms=999)
    assert delay.waits(start, {("t", 0): 14}, now_ms=1998)
    assert not delay.waits(start, {("t", 0): 6}, now_ms=1999)
