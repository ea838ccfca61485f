"""Comparing records: whatever the batches, codecs and pieces, the outcome is that of comparing two lists."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import HEADER_SIZE_BYTES, TimestampType, pack_header
from ottla_core.wire.records import Record, encode_batch
from ottla_operations.mirror.comparable_records import Batch, comparable_records, content_of, whole_batches
from ottla_operations.mirror.differences import Kind
from ottla_operations.mirror.record_comparison import RecordComparison

texts = st.none() | st.binary(max_size=3)
headers = st.lists(st.tuples(st.sampled_from(("", "a", "\udcff")), texts), max_size=2).map(tuple)
records = st.builds(Record, st.just(0), st.integers(0, 3), texts, texts, headers)
rows = st.lists(records, max_size=12)


def in_batches(
    row: Sequence[Record], sizes: Sequence[int], codec: Codec = Codec.NONE, first_offset: int = 0
) -> list[Batch]:
    """The records in batches of these sizes, over and over again, with offsets from the first one on."""
    found, position, number = [], 0, 0
    while position < len(row):
        some = row[position : position + sizes[number % len(sizes)]]
        placed = [each._replace(offset=first_offset + position + n) for n, each in enumerate(some)]
        found += whole_batches(memoryview(encode_batch(placed, codec=codec)))
        position, number = position + len(some), number + 1
    return found


def compared(
    source: Sequence[Batch], target: Sequence[Batch], pieces: Sequence[int] = (1,), **how: bool
) -> RecordComparison:
    """Compares both, offered in turns, so many batches at a time."""
    comparison = RecordComparison(**how)
    left, number = [list(source), list(target)], 0
    while any(left):
        count = pieces[number % len(pieces)]
        comparison.add_source(left[0][:count])
        comparison.add_target(left[1][:count])
        left = [each[count:] for each in left]
        number += 1
    return comparison


sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4)
codecs = st.sampled_from(Codec)


@given(rows, rows, sizes, sizes, codecs, codecs, sizes)
def test_it_finds_what_a_comparison_of_lists_finds(one, other, sizes_1, sizes_2, codec_1, codec_2, pieces):
    found = compared(in_batches(one, sizes_1, codec_1, 5), in_batches(other, sizes_2, codec_2, 70), pieces)
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    assert found.records == same
    if same == min(len(one), len(other)):
        assert found.difference is None
        assert found.source_left == (None if same == len(one) else 5 + same)
        assert found.target_left == (None if same == len(other) else 70 + same)
    else:
        assert found.difference is not None
        assert found.difference.source_offset == 5 + same
        assert found.difference.target_offset == 70 + same


@given(rows, sizes, sizes, codecs, codecs, sizes)
def test_equal_records_are_equal_whatever_the_batches(row, sizes_1, sizes_2, codec_1, codec_2, pieces):
    found = compared(in_batches(row, sizes_1, codec_1), in_batches(row, sizes_2, codec_2), pieces)
    assert found.difference is None
    assert found.wants_source
    assert found.wants_target


def numbered(count: int, start: int = 0) -> list[Record]:
    return [Record(0, n, b"%d" % n, b"value", ()) for n in range(start, start + count)]


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"key": b"other"}, Kind.KEY),
        ({"value": None}, Kind.VALUE),
        ({"headers": (("h", b""),)}, Kind.HEADERS),
        ({"timestamp": 99}, Kind.TIMESTAMP),
        ({"timestamp": 99, "value": b""}, Kind.RECORD),
    ],
)
def test_it_says_in_what_records_differ(changed, kind):
    row = numbered(9)
    other = [*row[:4], row[4]._replace(**changed), *row[5:]]
    difference = compared(in_batches(row, [3]), in_batches(other, [9])).difference
    assert difference is not None
    assert (difference.kind, difference.source_offset, difference.target_offset) == (kind, 4, 4)


def test_a_record_that_was_left_out_is_missing_and_it_says_where_the_target_goes_on():
    row = numbered(20)
    difference = compared(in_batches(row, [20]), in_batches([*row[:4], *row[7:]], [20])).difference
    assert difference is not None
    assert difference.kind is Kind.MISSING
    assert "3 records, up to source offset 7" in difference.detail


def test_a_record_that_came_twice_is_repeated():
    row = numbered(20)
    difference = compared(in_batches(row, [20]), in_batches([*row[:4], *row[3:]], [20])).difference
    assert difference is not None
    assert (difference.kind, difference.target_offset) == (Kind.REPEATED, 4)


def test_a_foreign_record_is_extra():
    row = numbered(20)
    foreign = Record(0, 1, b"foreign", b"", ())
    difference = compared(in_batches(row, [20]), in_batches([*row[:4], foreign, *row[4:]], [20])).difference
    assert difference is not None
    assert difference.kind is Kind.EXTRA


def test_swapped_records_are_a_difference():
    row = numbered(6)
    difference = compared(in_batches(row, [6]), in_batches([row[0], row[2], row[1], *row[3:]], [6])).difference
    assert difference is not None
    assert difference.source_offset == 1


def test_older_records_of_the_target_are_left_out_if_that_is_said():
    row = numbered(20)
    found = compared(in_batches(row[8:], [3], first_offset=8), in_batches(row, [5]), skips_at_target=True)
    assert (found.difference, found.records, found.skipped) == (None, 12, 8)
    assert compared(in_batches(row[8:], [3], first_offset=8), in_batches(row, [5])).difference is not None


def test_older_records_of_the_source_are_left_out_if_that_is_said():
    row = numbered(20)
    found = compared(in_batches(row, [20]), in_batches(row[8:], [2]), skips_at_source=True)
    assert (found.difference, found.records, found.skipped) == (None, 12, 8)


def test_once_both_have_a_record_in_common_nothing_is_left_out():
    row = numbered(20)
    found = compared(in_batches(row[8:], [3]), in_batches([*row[:10], *row[11:]], [5]), skips_at_target=True)
    assert found.difference is not None
    assert found.records == 2


def test_timestamps_that_the_target_made_are_not_compared():
    row = numbered(4)
    stamped = encode_batch(
        [each._replace(offset=n, timestamp=777) for n, each in enumerate(row)],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    found = compared(in_batches(row, [4]), whole_batches(memoryview(stamped)))
    assert found.difference is None
    assert found.target_has_own_timestamps


def test_timestamps_that_the_source_made_are_compared():
    row = [each._replace(timestamp=777) for each in numbered(4)]
    stamped = encode_batch(
        [each._replace(offset=n) for n, each in enumerate(row)], timestamp_type=TimestampType.LOG_APPEND_TIME
    )
    assert compared(whole_batches(memoryview(stamped)), in_batches(row, [2])).difference is None
    assert compared(whole_batches(memoryview(stamped)), in_batches(numbered(4), [2])).difference is not None


@given(records)
def test_the_content_of_a_record_is_what_was_written(record):
    (found,) = comparable_records(in_batches([record], [1])[0])
    content = content_of(found.body)
    assert (content.key, content.value) == (record.key, record.value)
    assert content.headers == tuple((name.encode(errors="surrogateescape"), value) for name, value in record.headers)


def test_equal_bytes_that_count_from_other_times_are_a_difference():
    (batch,) = in_batches([Record(0, 5, b"k", b"v", ())], [1])
    earlier = batch.header._replace(base_timestamp=3)
    body = batch.data[HEADER_SIZE_BYTES:]
    other = whole_batches(memoryview(pack_header(earlier, body) + bytes(body)))
    difference = compared([batch], other).difference
    assert difference is not None
    assert difference.kind is Kind.TIMESTAMP
