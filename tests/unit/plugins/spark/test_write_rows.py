"""Arrow batches become what a producer is called with, in order and a bounded slice at a time."""

import pyarrow as pa
import pytest

from ottla_spark.datasource.writing_errors import RecordRefused
from ottla_spark.datasource.writing_plan import WritePlan
from ottla_spark.datasource.writing_rows import SLICE_BYTES_MAX, SLICE_ROWS_MAX, Record, record_slices

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def records_of(columns: dict[str, pa.Array], *, topic: str | None = "t") -> list[Record]:
    plan = WritePlan(settings={}, topic=topic, columns=frozenset(columns) - {"topic"})
    return [record for records in record_slices(pa.record_batch(columns), plan) for record in records]


def test_text_and_bytes_are_handed_over_as_bytes_and_null_stays_null() -> None:
    assert records_of({"value": pa.array(["ä", "", None])}) == [("t", "ä".encode()), ("t", b""), ("t", None)]
    assert records_of({"value": pa.array([b"\xff", b"", None])}) == [("t", b"\xff"), ("t", b""), ("t", None)]
    assert records_of({"value": pa.array(["a"], pa.large_string()), "key": pa.array(["k"])}) == [("t", b"a", b"k")]


def test_each_set_of_columns_has_its_arguments_in_their_places() -> None:
    value, key = pa.array([b"v"]), pa.array([b"k"])
    partition, topic = pa.array([3], pa.int32()), pa.array(["other"])
    headers = pa.array([[{"key": "a", "value": b"1"}, {"key": "a", "value": None}]], HEADERS)
    assert records_of({"value": value, "topic": topic}, topic=None) == [("other", b"v")]
    assert records_of({"value": value, "topic": topic}) == [("t", b"v")]
    assert records_of({"value": value, "partition": partition}) == [("t", b"v", None, 3)]
    assert records_of({"key": key, "value": value, "partition": partition}) == [("t", b"v", b"k", 3)]
    with_headers = [("a", b"1"), ("a", None)]
    assert records_of({"value": value, "key": key, "headers": headers}) == [
        ("t", b"v", b"k", -1, None, None, 0, with_headers)
    ]


def test_a_null_partition_or_no_headers_leave_it_to_the_client() -> None:
    value = pa.array([b"v", b"v"])
    partition, headers = pa.array([None, 0], pa.int32()), pa.array([None, []], HEADERS)
    records = records_of({"value": value, "partition": partition, "headers": headers})
    assert [(record[3], record[7]) for record in records] == [(-1, None), (0, [])]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"topic": pa.array(["t", None])}, "write the option 'topic'"),
        ({"partition": pa.array([0, -2], pa.int32())}, "'partition' is -2"),
        ({"headers": pa.array([[], [{"key": None, "value": b""}]], HEADERS)}, "header without a key"),
        ({"headers": pa.array([[None], []], HEADERS)}, "header without a key"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_with_the_column(columns: dict[str, pa.Array], said: str) -> None:
    with pytest.raises(RecordRefused, match=said):
        records_of({"value": pa.array([b"a", b"b"]), **columns}, topic=None if "topic" in columns else "t")


def test_slices_are_bounded_in_rows_and_in_bytes_and_keep_all_rows_in_order() -> None:
    plan = WritePlan(settings={}, topic="t", columns=frozenset({"value"}))
    many = pa.record_batch({"value": pa.array([str(number) for number in range(SLICE_ROWS_MAX * 2 + 5)])})
    slices = [list(records) for records in record_slices(many, plan)]
    assert [len(records) for records in slices] == [SLICE_ROWS_MAX, SLICE_ROWS_MAX, 5]
    assert [int(value) for records in slices for _, value in records] == list(range(many.num_rows))

    large = pa.record_batch({"value": pa.array(["x" * (SLICE_BYTES_MAX // 4)] * 10)})
    sizes = [sum(len(value) for _, value in records) for records in record_slices(large, plan)]
    assert sum(sizes) == 10 * (SLICE_BYTES_MAX // 4)
    assert max(sizes) <= SLICE_BYTES_MAX

    huge = pa.record_batch({"value": pa.array(["x" * (SLICE_BYTES_MAX + 1)] * 2)})
    assert [len(list(records)) for records in record_slices(huge, plan)] == [1, 1]
