"""Records in a form in which those of two clusters can be compared without decoding them. Pure.

What is equal at both sides is a record's bytes from the length of its key on: key, value and headers. Before these
stand its length, its attributes, and its timestamp and offset as differences to those of its batch, which tell
nothing by themselves. Only records that differ are decoded, to say in what.
"""

from typing import Final, NamedTuple

from ottla_core.errors import InvalidRecord
from ottla_core.wire.record_batch import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE_BYTES,
    TIMESTAMP_TYPE_FLAG,
    RecordBatchHeader,
    TimestampType,
    crc_is_valid,
    parse_header,
)
from ottla_core.wire.records import read_varint, records_section

_EQUAL_ATTRIBUTES: Final = CODEC_MASK | TIMESTAMP_TYPE_FLAG | DELETE_HORIZON_FLAG
"""What two batches must have in common for equal bytes to mean equal records; not whether they are transactional."""


class Batch(NamedTuple):
    """A whole batch, whose CRC may be wrong, with its header."""

    header: RecordBatchHeader
    data: memoryview

    @property
    def is_intact(self) -> bool:
        """Whether its bytes are those that its CRC was made of."""
        return crc_is_valid(self.data, self.header)


class ComparableRecord(NamedTuple):
    """One record.

    Attributes:
        timestamp: in milliseconds; None if it is not the producer's, but the time when the target stored it.
        body: its key, value and headers, as they are encoded.
    """

    offset: int
    timestamp: int | None
    body: bytes


def whole_batches(records: memoryview) -> list[Batch]:
    """Return the whole batches of a response; a partial one at the end is left out.

    Raises:
        CorruptMessage: a header is impossible.
        UnsupportedForMessageFormat: the batch is of a format from before Kafka 0.11.
    """
    found = []
    position, end = 0, len(records)
    while end - position >= HEADER_SIZE_BYTES:
        header = parse_header(records, position)
        if header.size_bytes > end - position:
            break
        found.append(Batch(header, records[position : position + header.size_bytes]))
        position += header.size_bytes
    return found


def have_equal_records(one: Batch, other: Batch) -> bool:
    """Return whether both batches are seen to have equal records without a look at any of them."""
    here, there = one.header, other.header
    return (
        here.record_count == there.record_count
        and here.last_offset_delta == there.last_offset_delta
        and here.base_timestamp == there.base_timestamp
        and here.max_timestamp == there.max_timestamp
        and here.attributes & _EQUAL_ATTRIBUTES == there.attributes & _EQUAL_ATTRIBUTES
        and one.data[HEADER_SIZE_BYTES:] == other.data[HEADER_SIZE_BYTES:]
    )


def comparable_records(batch: Batch) -> list[ComparableRecord]:
    """Return the records of a batch.

    Raises:
        InvalidRecord: they cannot be decompressed, or do not fit their batch.
        UnsupportedCompressionType: the codec is unknown.
    """
    header = batch.header
    section = records_section(batch.data, header)
    base_offset, base_timestamp, size = header.base_offset, header.base_timestamp, len(section)
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    found: list[ComparableRecord] = []
    position = 0
    try:
        for _ in range(header.record_count):
            length, position = read_varint(section, position)
            end = position + length
            timestamp_delta, position = read_varint(section, position + 1)  # attributes of a record: none are defined
            offset_delta, position = read_varint(section, position)
            if not (position < end <= size and 0 <= offset_delta <= header.last_offset_delta):
                raise InvalidRecord(f"A record of the batch at offset {base_offset} does not fit its length or batch")
            timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
            found.append(ComparableRecord(base_offset + offset_delta, timestamp, section[position:end]))
            position = end
    except IndexError:
        raise InvalidRecord(f"A record of the batch at offset {base_offset} is cut short") from None
    if position != size:
        raise InvalidRecord(f"{size - position} bytes follow the records of the batch at offset {base_offset}")
    return found


def has_own_timestamps(batch: Batch) -> bool:
    """Return whether the batch's timestamps are the time when its cluster stored it."""
    return batch.header.timestamp_type is TimestampType.LOG_APPEND_TIME


class Content(NamedTuple):
    """What a record holds; names of headers are bytes, as nothing says that they are UTF-8."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes | None, bytes | None], ...]


def content_of(body: bytes) -> Content:
    """Return a record's key, value and headers.

    Raises:
        InvalidRecord: it is damaged.
    """
    key, position = _field(body, 0)
    value, position = _field(body, position)
    count, position = _number(body, position)
    if not 0 <= count <= len(body):
        raise InvalidRecord(f"A record declares {count} headers")
    headers = []
    for _ in range(count):
        name, position = _field(body, position)
        header_value, position = _field(body, position)
        headers.append((name, header_value))
    if position != len(body):
        raise InvalidRecord("A record is longer than its fields")
    return Content(key, value, tuple(headers))


def key_of(body: bytes) -> bytes | None:
    """Return a record's key.

    Raises:
        InvalidRecord: it is damaged.
    """
    return _field(body, 0)[0]


def is_tombstone(body: bytes) -> bool:
    """Return whether a record has no value.

    Raises:
        InvalidRecord: it is damaged.
    """
    return _field(body, _field(body, 0)[1])[0] is None


def _field(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _number(body, position)
    if length < 0:
        return None, position
    if position + length > len(body):
        raise InvalidRecord("A record is cut short")
    return body[position : position + length], position + length


def _number(body: bytes, position: int) -> tuple[int, int]:
    try:
        return read_varint(body, position)
    except IndexError:
        raise InvalidRecord("A record is cut short") from None
