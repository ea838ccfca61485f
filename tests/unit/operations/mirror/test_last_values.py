"""Comparing compacted partitions by the last records of their keys."""

from hypothesis import given
from hypothesis import strategies as st

from ottla_core.wire.records import Record, encode_batch
from ottla_operations.mirror.comparable_records import Batch, whole_batches
from ottla_operations.mirror.differences import Kind
from ottla_operations.mirror.last_values import KeyShare, LastValues, first_difference, share_count

Row = list[tuple[int, bytes | None]]
rows = st.lists(st.tuples(st.integers(0, 4), st.none() | st.binary(max_size=1)), max_size=20)


def log(row: Row, first_offset: int = 0) -> list[Batch]:
    """One batch per record."""
    return whole_batches(
        memoryview(
            b"".join(
                encode_batch([Record(first_offset + n, 1, b"%d" % key, value, ())])
                for n, (key, value) in enumerate(row)
            )
        )
    )


def last_values(row: Row) -> dict[int, bytes]:
    return {key: value for key, value in dict(row).items() if value is not None}


def unequal_keys(source: Row, target: Row, *, shares: int = 1, with_offsets: bool = False) -> int:
    count = 0
    for index in range(shares):
        values = LastValues(KeyShare(index, shares), with_offsets=with_offsets)
        values.add_source(log(source))
        values.add_target(log(target, 0 if with_offsets else 100))
        count += len(values.unequal())
    return count


@given(rows, rows, st.integers(1, 4))
def test_the_keys_that_differ_are_those_whose_last_values_do(source, target, shares):
    here, there = last_values(source), last_values(target)
    differ = {key for key in here.keys() | there.keys() if here.get(key) != there.get(key)}
    assert unequal_keys(source, target, shares=shares) == len(differ)


@given(rows, st.sets(st.integers(0, 19)))
def test_what_compaction_removes_is_no_difference(row, removable):
    """It removes what a later record of the key supersedes, and tombstones before which nothing is left."""
    last = {each[0]: position for position, each in enumerate(row)}
    kept = [each for n, each in enumerate(row) if n not in removable or last[each[0]] == n]
    assert unequal_keys(row, kept) == 0
    compacted = [each for n, each in enumerate(row) if last[each[0]] == n]
    without_tombstones = [each for each in compacted if each[1] is not None or each[0] not in removable]
    assert unequal_keys(row, without_tombstones) == 0


@given(rows, rows, st.integers(0, 20))
def test_a_target_may_be_anywhere_between_both_ends_of_a_source_that_is_written_to(before, since, copied):
    values = LastValues(KeyShare(0, 1), with_offsets=False)
    values.add_source(log(before))
    values.add_target(log([*before, *since][: len(before) + copied], 1000))
    unequal = values.unequal()
    values.pardon(log(since, len(before)), unequal)
    assert not unequal


def test_a_value_that_the_source_never_had_since_is_not_pardoned():
    values = LastValues(KeyShare(0, 1), with_offsets=False)
    values.add_source(log([(1, b"a"), (2, b"b")]))
    values.add_target(log([(1, b"a"), (2, b"x")]))
    unequal = values.unequal()
    values.pardon(log([(1, b"z"), (2, b"c")], 2), unequal)
    difference = first_difference(unequal)
    assert difference is not None
    assert (difference.kind, difference.source_offset, difference.target_offset) == (Kind.RECORD, 1, 1)


def test_linked_topics_must_have_the_same_offsets():
    source: Row = [(1, b"a"), (2, b"b")]
    assert unequal_keys(source, source, with_offsets=True) == 0
    assert unequal_keys(source, [(2, b"b"), (1, b"a")], with_offsets=True) == 2


def test_missing_and_extra_keys_are_told():
    values = LastValues(KeyShare(0, 1), with_offsets=False)
    values.add_source(log([(1, b"a")]))
    missing = first_difference(values.unequal())
    assert missing is not None
    assert missing.kind is Kind.MISSING
    values = LastValues(KeyShare(0, 1), with_offsets=False)
    values.add_target(log([(1, b"a")]))
    extra = first_difference(values.unequal())
    assert extra is not None
    assert extra.kind is Kind.EXTRA


def test_no_reading_looks_at_more_keys_than_it_may():
    assert [share_count(n, 10) for n in (0, 1, 10, 11, 100)] == [1, 1, 1, 2, 10]
