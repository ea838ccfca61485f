"""The records inside a batch: varint-coded, each relative to the batch's base offset and base timestamp. Pure.

Brokers avoid this code; it runs where records must be looked at (a search by timestamp, compacted topics), in
the command line, and in tests. Whatever bytes come in, only the typed errors below go out, and no length field
is believed before it is compared with the bytes that are there.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ottla_core.errors import InvalidRecord
from ottla_core.wire.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    codec_of,
    compress,
    decompress,
    decompressed_view,
)
from ottla_core.wire.record_batch import (
    CONTROL_FLAG,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    Buffer,
    RecordBatchHeader,
    TimestampType,
    pack_header,
)

_VARINT_BITS_MAX: Final = 63
_INT64_MASK: Final = 2**64 - 1

EQUAL_LENGTHS_MIN: Final = 16
"""From so many records of equal length on, to compare their lengths at once takes less time than to add them up."""
EQUAL_LENGTHS_LOOKED_AT_MAX: Final = 1024
"""Lengths that are compared at once; if the first two differ, all others were looked at in vain."""
ONE_BY_ONE_MAX: Final = 1024
"""Records of different lengths that are passed one by one before equal lengths are looked for again."""

Headers = Sequence[tuple[str, bytes | None]]
"""Header names and values. A name that is not UTF-8 keeps its bytes as surrogate escapes."""


class Record(NamedTuple):
    """One record with its absolute offset and its timestamp in milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return a zigzag-coded varint (up to 64 bits) and the position after it.

    Raises:
        InvalidRecord: the varint has more than ten bytes.
        IndexError: the buffer ends within the varint.
    """
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= _INT64_MASK
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > _VARINT_BITS_MAX:
            raise InvalidRecord("A varint in a record has more than ten bytes")


def write_varint(output: bytearray, value: int) -> None:
    """Append a zigzag-coded varint."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        output.append((value & 0x7F) | 0x80)
        value >>= 7
    output.append(value)


def records_section(
    batch: Buffer, header: RecordBatchHeader, *, size_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """Return the batch's records section, decompressed.

    Raises:
        InvalidRecord: the section cannot be decompressed or is too large.
        UnsupportedCompressionType: the codec is unknown.
    """
    section = memoryview(batch)[HEADER_SIZE_BYTES : header.size_bytes]
    return decompress(codec_of(header.codec_id), section, size_bytes_max=size_bytes_max)


def section_view(batch: Buffer, header: RecordBatchHeader, *, size_bytes_max: int) -> memoryview:
    """Return the batch's records section, decompressed, as `records_section` does but without copying it."""
    section = memoryview(batch)[HEADER_SIZE_BYTES : header.size_bytes]
    return decompressed_view(codec_of(header.codec_id), section, size_bytes_max=size_bytes_max)


def iterate_records(
    batch: Buffer, header: RecordBatchHeader, *, size_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """Yield the records of one batch.

    Raises:
        InvalidRecord: the section is damaged, or does not hold exactly the declared count of records.
        UnsupportedCompressionType: the codec is unknown.
    """
    section = records_section(batch, header, size_bytes_max=size_bytes_max)
    base_offset, last_offset = header.base_offset, header.last_offset
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    position = 0
    for _ in range(header.record_count):
        try:
            record, position = _read_record(section, position, base_offset, header.base_timestamp)
        except IndexError:
            raise InvalidRecord(f"A record of the batch at offset {base_offset} is cut short") from None
        if not base_offset <= record.offset <= last_offset:
            raise InvalidRecord(
                f"A record of the batch at offset {base_offset} has offset {record.offset}, outside the batch"
            )
        yield record if append_time is None else record._replace(timestamp=append_time)
    if position != len(section):
        raise InvalidRecord(
            f"The batch at offset {base_offset} declares {header.record_count} records,"
            f" but {len(section) - position} bytes follow them"
        )


def check_record_lengths(batch: Buffer, header: RecordBatchHeader) -> None:
    """Check that an uncompressed batch holds exactly its declared count of records, by their lengths alone.

    Records of the same length, as many producers make them, are passed over together (`_count_equal_lengths`).

    Raises:
        InvalidRecord: the lengths do not add up.
    """
    position, end, left = HEADER_SIZE_BYTES, header.size_bytes, header.record_count
    one_by_one = left if left < EQUAL_LENGTHS_MIN else 0
    try:
        while left > 0:
            for _ in range(min(one_by_one, left)):
                byte = batch[position]
                if byte & 1:  # the sign of a zigzag-coded number
                    raise _negative_length(header)
                if byte < 0x80:
                    position += 1 + (byte >> 1)
                    continue
                second = batch[position + 1]
                if second < 0x80:
                    position += 2 + ((byte & 0x7F | second << 7) >> 1)
                    continue
                length, position = read_varint(batch, position)
                position += length
            left -= one_by_one
            if left < EQUAL_LENGTHS_MIN:
                one_by_one = left
                continue
            count, size = _count_equal_lengths(batch, position, left)
            left -= count
            position += count * size
            one_by_one = 0 if count >= EQUAL_LENGTHS_MIN else min(4 * one_by_one + 64, ONE_BY_ONE_MAX)
    except IndexError:
        position = end + 1
    if position != end:
        raise InvalidRecord(
            f"The lengths of {header.record_count} records do not add up in the batch at offset {header.base_offset}"
        )


def _count_equal_lengths(batch: Buffer, position: int, count_max: int) -> tuple[int, int]:
    """Return how many records from here on have the length of the first one, and a record's size with its length.

    There is more than one record to come.

    As long as all are of one size, their lengths lie at equal distances. So the bytes there are compared at once: a
    slice with a step has the first bytes of all lengths, another one the second bytes. What lies behind the first
    difference may be no length at all, and does not count. Returns (0, 0) where the first length is negative or has
    more than two bytes.

    Raises:
        IndexError: the batch ends here.
    """
    byte = batch[position]
    if byte < 0x80:
        size, prefix_size = 1 + (byte >> 1), 1
    elif (second := batch[position + 1]) < 0x80:
        size, prefix_size = 2 + ((byte & 0x7F | second << 7) >> 1), 2
    else:
        return 0, 0
    if byte & 1:
        return 0, 0
    if batch[position + size] != byte:
        return 1, size
    stop = position + size * min(count_max, EQUAL_LENGTHS_LOOKED_AT_MAX)
    count = count_max
    for start in range(position, position + prefix_size):
        column = bytes(batch[start:stop:size])
        count = min(count, len(column) - len(column.lstrip(column[:1])))
    return count, size


def _negative_length(header: RecordBatchHeader) -> InvalidRecord:
    return InvalidRecord(f"A record of the batch at offset {header.base_offset} has a negative length")


def _read_record(section: bytes, position: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    length, position = read_varint(section, position)
    end = position + length
    if length < 0 or end > len(section):
        raise InvalidRecord(f"A record declares {length} bytes, {len(section) - position} are left")
    position += 1  # attributes of a record: none are defined
    timestamp_delta, position = read_varint(section, position)
    offset_delta, position = read_varint(section, position)
    key, position = _read_bytes(section, position, end)
    value, position = _read_bytes(section, position, end)
    header_count, position = read_varint(section, position)
    headers: Headers = ()
    if header_count:
        headers, position = _read_headers(section, position, end, header_count)
    if position != end:
        raise InvalidRecord(f"A record declares {length} bytes, its fields end {end - position} bytes before")
    return Record(base_offset + offset_delta, base_timestamp + timestamp_delta, key, value, headers), end


def _read_bytes(section: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(section, position)
    if length < 0:
        if length != -1:
            raise InvalidRecord(f"A field of a record declares {length} bytes")
        return None, position
    field_end = position + length
    if field_end > end:
        raise InvalidRecord(f"A field of a record declares {length} bytes, {end - position} are left")
    return section[position:field_end], field_end


def _read_headers(section: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
    if count < 0 or count > end - position:
        raise InvalidRecord(f"A record declares {count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(section, position, end)
        if name is None:
            raise InvalidRecord("A record has a header without a name")
        value, position = _read_bytes(section, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def encode_record(output: bytearray, record: Record, base_offset: int, base_timestamp: int) -> None:
    """Append one record to a records section."""
    body = bytearray(1)
    write_varint(body, record.timestamp - base_timestamp)
    write_varint(body, record.offset - base_offset)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for name, header_value in record.headers:
        _write_bytes(body, name.encode("utf-8", "surrogateescape"))
        _write_bytes(body, header_value)
    write_varint(output, len(body))
    output += body


def _write_bytes(output: bytearray, value: bytes | None) -> None:
    if value is None:
        output.append(1)  # the varint -1
    else:
        write_varint(output, len(value))
        output += value


def encode_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Return one batch of at least one record; the first record's offset is the base offset.

    With `LOG_APPEND_TIME` the largest timestamp counts as the append time of all records.
    """
    assert records, "a batch has at least one record"
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    section = bytearray()
    for record in records:
        encode_record(section, record, base_offset, base_timestamp)
    attributes = (
        codec
        | (TIMESTAMP_TYPE_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if is_transactional else 0)
        | (CONTROL_FLAG if is_control else 0)
    )
    body = compress(codec, section, level)
    header = RecordBatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(body),
        leader_epoch=leader_epoch,
        magic=MAGIC_V2,
        crc=0,
        attributes=attributes,
        last_offset_delta=records[-1].offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return pack_header(header, body) + body
