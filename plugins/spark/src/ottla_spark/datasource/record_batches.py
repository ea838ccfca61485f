"""The hot loop of reading: from librdkafka's messages to Arrow's record batches.

Every operation per record costs, so there are as few as possible: keys, values and timestamps are fetched by
`map` over C methods, without a Python frame per record; topic and partition are repeated by Arrow; offsets are
counted up where none is missing; headers are touched only if asked for. Python's garbage collector stands still
meanwhile, because it would search thousands of fresh messages for cycles that they cannot have: that alone is a third
of the time.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Message

from ottla_spark.datasource.columns import arrow_schema

_value, _key, _timestamp, _offset = Message.value, Message.key, Message.timestamp, Message.offset
_Numbers = npt.NDArray[np.int64]
_Headers = list[tuple[str, bytes | None]] | None

# librdkafka counts kinds of timestamps from 0 (none), Kafka's Java client, and so Spark, from -1.
_TIMESTAMP_TYPE_SHIFT = 1
_NO_TIMESTAMP_MS = -1
# Spark counts microseconds. What is later, such as nanoseconds that somebody wrote as milliseconds, becomes null.
_TIMESTAMP_MAX_MS = (2**63 - 1) // 1000


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Keep the garbage collector from running; leave it afterwards as it was."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class Converted:
    """What a call of `consume` brought.

    Attributes:
        batch: the records inside the range; None if there are none.
        position: the offset after the last record that was seen, inside the range or behind it; None if there was
        none. events: messages that are no records: errors, and ends of partitions.
    """

    batch: pa.RecordBatch | None
    position: int | None
    events: Sequence[Message]


class OutOfOrder(AssertionError):
    """Offsets of a partition did not rise, or lie before what was asked for."""


class BatchConverter:
    """Turns messages of one partition into record batches."""

    def __init__(
        self, topic: str, partition: int, *, end: int, with_headers: bool, with_content: bool = True
    ) -> None:
        self._topic = topic
        self._partition = pa.scalar(partition, pa.int32())
        self._end = end
        self._with_headers = with_headers
        self._with_content = with_content
        self._schema = arrow_schema(with_headers=with_headers)
        self._headers_type = self._schema.field("headers").type if with_headers else None

    def convert(self, messages: list[Message], *, position: int) -> Converted:
        """Return the records with offsets from `position` to the range's end, and what else came.

        Raises:
            OutOfOrder: a record has an offset below `position` or one that was there before.
        """
        stamps = _stamps(messages)
        events: list[Message] = []
        if not stamps[:, 0].all():
            events = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
            stamps = _stamps(messages)
        if not messages:
            return Converted(None, None, events)
        offsets = self._offsets(messages, position)
        seen = int(offsets[-1]) + 1
        if seen > self._end:
            count = int(np.searchsorted(offsets, self._end))
            messages, offsets, stamps = messages[:count], offsets[:count], stamps[:count]
        batch = self._batch(messages, offsets, stamps) if messages else None
        return Converted(batch, seen, events)

    def _offsets(self, messages: list[Message], position: int) -> _Numbers:
        first, last, count = messages[0].offset(), messages[-1].offset(), len(messages)
        assert first is not None  # only events lack an offset
        assert last is not None
        if last - first == count - 1:
            offsets = np.arange(first, first + count, dtype=np.int64)
        else:
            offsets = np.fromiter(map(_offset, messages), np.int64, count)
            if not (np.diff(offsets) > 0).all():
                raise OutOfOrder(f"offsets of topic {self._topic} do not rise between {first} and {last}")
        if first < position:
            raise OutOfOrder(f"topic {self._topic}: asked for offset {position}, got {first}")
        return offsets

    def _batch(self, messages: list[Message], offsets: _Numbers, stamps: _Numbers) -> pa.RecordBatch:
        count = len(messages)
        columns = [
            *(
                pa.array(list(map(part, messages)), pa.binary())
                if self._with_content
                else pa.nulls(count, pa.binary())
                for part in (_key, _value)
            ),
            pa.repeat(self._topic, count),
            pa.repeat(self._partition, count),
            pa.array(offsets),
            _timestamps(stamps),
            pa.array((stamps[:, 0] - _TIMESTAMP_TYPE_SHIFT).astype(np.int32)),
        ]
        if self._with_headers:
            columns.append(self._headers(messages))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _headers(self, messages: list[Message]) -> pa.Array:
        per_record = [cast("_Headers", message.headers()) for message in messages]
        lengths = np.fromiter((len(headers or ()) for headers in per_record), np.int32, len(messages))
        bounds = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        flat = [header for headers in per_record if headers for header in headers]
        assert self._headers_type is not None
        pairs = pa.StructArray.from_arrays(
            [
                pa.array([name for name, _ in flat], pa.string()),
                pa.array([value for _, value in flat], pa.binary()),
            ],
            fields=list(self._headers_type.value_type),
        )
        return pa.ListArray.from_arrays(pa.array(bounds), pairs, type=self._headers_type, mask=pa.array(lengths == 0))


def _stamps(messages: list[Message]) -> _Numbers:
    """Return a row per message: the kind of its timestamp, 0 if it has none, and the timestamp in milliseconds."""
    count = len(messages)
    return np.fromiter(chain.from_iterable(map(_timestamp, messages)), np.int64, 2 * count).reshape(count, 2)


def _timestamps(stamps: _Numbers) -> pa.Array:
    timestamps_ms = np.where(stamps[:, 0] == 0, _NO_TIMESTAMP_MS, stamps[:, 1])
    too_far = np.abs(timestamps_ms) > _TIMESTAMP_MAX_MS
    return pa.array(timestamps_ms * 1000, mask=too_far).cast(pa.timestamp("us", "UTC"))


COUNT_FIRST = 100
COUNT_MAX = 5_000
BATCH_BYTES_MAX = 4 << 20
GROWTH_MAX = 8


@dataclass(slots=True)
class BatchSize:
    """How many records the next batch may have, so that its size in memory stays bounded however long records are."""

    count: int = COUNT_FIRST

    def learn(self, *, records: int, size_bytes: int) -> None:
        """Take into account how large a batch was."""
        fitting = BATCH_BYTES_MAX * records // max(size_bytes, 1)
        self.count = max(min(fitting, self.count * GROWTH_MAX, COUNT_MAX), 1)
