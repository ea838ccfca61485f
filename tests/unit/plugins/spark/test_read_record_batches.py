"""Messages as record batches: columns, gaps, ends of ranges, and what is no record."""

import gc

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message
from hypothesis import given
from hypothesis import strategies as st

from ottla_spark.datasource.columns import arrow_schema
from ottla_spark.datasource.record_batches import (
    BATCH_BYTES_MAX,
    COUNT_FIRST,
    COUNT_MAX,
    BatchConverter,
    BatchSize,
    OutOfOrder,
    garbage_collection_paused,
)

CREATE_TIME, APPEND_TIME, NO_TIME = 1, 2, 0


def record(offset: int, *, stamp: tuple[int, int] = (CREATE_TIME, 1500), value: bytes | None = b"v") -> Message:
    return Message(topic="t", partition=3, offset=offset, key=b"%d" % offset, value=value, timestamp=stamp)


def end_of_partition(offset: int) -> Message:
    return Message(topic="t", partition=3, offset=offset, error=KafkaError(KafkaError._PARTITION_EOF))


def converter(*, end: int = 100, with_headers: bool = False) -> BatchConverter:
    return BatchConverter("t", 3, end=end, with_headers=with_headers)


def offsets(batch: pa.RecordBatch | None) -> list[int]:
    assert batch is not None
    return list(batch.column("offset").to_pylist())


def test_a_batch_has_the_columns_that_spark_expects() -> None:
    messages = [record(7), record(8, stamp=(APPEND_TIME, 2000), value=None), record(9, stamp=(NO_TIME, 0), value=b"")]
    batch = converter().convert(messages, position=7).batch
    assert batch is not None
    assert batch.schema == arrow_schema(with_headers=False)
    columns = batch.to_pydict()
    assert columns["key"] == [b"7", b"8", b"9"]
    assert columns["value"] == [b"v", None, b""]
    assert columns["topic"] == ["t"] * 3
    assert columns["partition"] == [3] * 3
    assert columns["offset"] == [7, 8, 9]
    assert [round(time.timestamp() * 1000) for time in columns["timestamp"]] == [1500, 2000, -1]
    assert columns["timestampType"] == [0, 1, -1]


def test_a_time_that_spark_cannot_hold_is_null_and_no_other_time() -> None:
    nanoseconds = record(0, stamp=(CREATE_TIME, 1_700_000_000_000_000_000))
    batch = converter().convert([nanoseconds, record(1)], position=0).batch
    assert batch is not None
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [None, 1_500_000]


def test_headers_are_lists_and_null_where_there_are_none() -> None:
    with_some = Message(
        topic="t", partition=3, offset=1, value=b"v", headers=[("a", b"1"), ("a", None)], timestamp=(1, 1)
    )
    batch = converter(with_headers=True).convert([record(0), with_some, record(2)], position=0).batch
    assert batch is not None
    assert batch.schema == arrow_schema(with_headers=True)
    assert batch.column("headers").to_pylist() == [
        None,
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        None,
    ]


def test_records_behind_the_end_of_the_range_are_left_out() -> None:
    converted = converter(end=12).convert([record(10), record(11), record(12), record(13)], position=10)
    assert (offsets(converted.batch), converted.position) == ([10, 11], 14)
    behind = converter(end=12).convert([record(15)], position=10)
    assert (behind.batch, behind.position) == (None, 16)


def test_gaps_are_no_fault_but_offsets_that_do_not_rise_are() -> None:
    assert offsets(converter().convert([record(5), record(9), record(20)], position=3).batch) == [5, 9, 20]
    with pytest.raises(OutOfOrder, match="do not rise between 5 and 9"):
        converter().convert([record(5), record(7), record(7), record(9)], position=5)
    with pytest.raises(OutOfOrder, match="asked for offset 6, got 5"):
        converter().convert([record(5)], position=6)


def test_the_end_of_a_partition_is_told_apart_even_where_it_fills_a_gap() -> None:
    end = end_of_partition(11)
    converted = converter().convert([record(9), record(10), end, record(12)], position=9)
    assert (offsets(converted.batch), converted.position, list(converted.events)) == ([9, 10, 12], 13, [end])
    nothing = converter().convert([end], position=11)
    assert (nothing.batch, nothing.position, list(nothing.events)) == (None, None, [end])


@given(st.sets(st.integers(10, 60), min_size=1), st.integers(10, 70), st.sets(st.integers(0, 50)))
def test_every_record_of_the_range_arrives_once(present: set[int], end: int, events_before: set[int]) -> None:
    messages: list[Message] = []
    for index, offset in enumerate(sorted(present)):
        messages += [end_of_partition(offset)] if index in events_before else []
        messages.append(record(offset))
    converted = converter(end=end).convert(messages, position=10)
    found = [] if converted.batch is None else offsets(converted.batch)
    assert found == sorted(offset for offset in present if offset < end)


@given(st.lists(st.integers(1, 2 << 20), min_size=1, max_size=20))
def test_batches_grow_step_by_step_and_stay_small_for_large_records(record_sizes: list[int]) -> None:
    size = BatchSize()
    assert size.count == COUNT_FIRST
    for record_bytes in record_sizes:
        size.learn(records=size.count, size_bytes=size.count * record_bytes)
        assert 1 <= size.count <= COUNT_MAX
        assert size.count == 1 or size.count * record_bytes <= BATCH_BYTES_MAX


def test_the_garbage_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    with garbage_collection_paused():
        assert not gc.isenabled()
        with garbage_collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
