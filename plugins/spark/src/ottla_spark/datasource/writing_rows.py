"""Arrow batches of rows, turned into what a producer is called with, a bounded slice at a time.

A batch holds whatever Spark was told to put into it; as Python objects it would need many times that. So only a slice
exists as such, of so many rows and about so many bytes. Text stays UTF-8: it is never decoded.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla_spark.datasource.writing_errors import RecordRefused
from ottla_spark.datasource.writing_plan import HEADERS, KEY, PARTITION, TOPIC, VALUE, WritePlan

SLICE_ROWS_MAX = 10_000
SLICE_BYTES_MAX = 8 * 1024 * 1024

# The positional arguments of `Producer.produce`: topic, value, key, partition, two callbacks, timestamp, headers.
Record = tuple[Any, ...]
ANY_PARTITION = -1


def record_slices(batch: pa.RecordBatch, plan: WritePlan) -> Iterator[Iterable[Record]]:
    """Yield the rows of a batch in order, as arguments for `Producer.produce`.

    Raises:
        RecordRefused: a row has no topic, a negative partition, or a header without a key.
    """
    row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
    rows = max(1, min(SLICE_ROWS_MAX, SLICE_BYTES_MAX // row_bytes))
    for start in range(0, batch.num_rows, rows):
        yield _records(batch.slice(start, rows), plan)


def _records(batch: pa.RecordBatch, plan: WritePlan) -> Iterable[Record]:
    topics = repeat(plan.topic) if plan.topic is not None else _topics(batch.column(TOPIC))
    values = _bytes(batch.column(VALUE))
    if not plan.columns & {KEY, PARTITION, HEADERS}:
        return zip(topics, values, strict=False)
    keys = _bytes(batch.column(KEY)) if KEY in plan.columns else repeat(None)
    if not plan.columns & {PARTITION, HEADERS}:
        return zip(topics, values, keys, strict=False)
    partitions = _partitions(batch.column(PARTITION)) if PARTITION in plan.columns else repeat(ANY_PARTITION)
    if HEADERS not in plan.columns:
        return zip(topics, values, keys, partitions, strict=False)
    nothing = repeat(None)
    now = repeat(0)
    return zip(topics, values, keys, partitions, nothing, nothing, now, _headers(batch.column(HEADERS)), strict=False)


def _bytes(column: pa.Array) -> list[bytes | None]:
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    elif pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    found: list[bytes | None] = column.to_pylist()
    return found


def _topics(column: pa.Array) -> list[str]:
    if column.null_count:
        raise RecordRefused("the column 'topic' is null in a row; filter such rows out, or write the option 'topic'")
    topics: list[str] = column.to_pylist()
    return topics


def _partitions(column: pa.Array) -> list[int]:
    lowest = pc.min(column).as_py()
    if lowest is not None and lowest < 0:
        raise RecordRefused(f"the column 'partition' is {lowest} in a row; null lets the key decide")
    partitions: list[int] = column.fill_null(ANY_PARTITION).to_pylist()
    return partitions


def _headers(column: pa.Array) -> list[list[tuple[str, bytes | None]] | None]:
    rows = column.to_pylist()
    return [None if row is None else [_header(header) for header in row] for row in rows]


def _header(header: dict[str, Any] | None) -> tuple[str, bytes | None]:
    name, value = header.values() if header is not None else (None, None)
    if name is None:
        raise RecordRefused("the column 'headers' has a header without a key in a row; a header must have one")
    return name, value
