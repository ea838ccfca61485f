"""Walking the records of a batch by their keys, without decoding them: what compaction does with every record. Pure.

`walk_records` reads the few bytes at the beginning of each record and skips the rest by its length. It is written
for speed: numbers of one or two bytes, which nearly all are, are decoded in place. A record that stays is copied as
the bytes it is; only where a batch gets a new base timestamp has the record's own, which counts from it, to be
written anew. Nothing is believed before it is compared with the bytes that are there.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from ottla_core.errors import InvalidRecord
from ottla_core.wire.record_batch import RecordBatchHeader
from ottla_core.wire.records import read_varint, write_varint

Section = TypeVar("Section", bytes, memoryview)

WalkedRecord = tuple[int, int, int, Section | None, bool]
"""Where a record starts and ends in its section, its offset, its key, and whether it has a value."""

Span = tuple[int, int]
"""Where one or several records start and end in their section."""


def walk_records(section: Section, header: RecordBatchHeader) -> Iterator[WalkedRecord[Section]]:  # noqa: PLR0912 - see above
    """Yield every record of a batch's section, which is decompressed.

    Raises:
        InvalidRecord: the section does not hold exactly the declared count of records, or a field does not fit.
    """
    base_offset, offset_delta_max = header.base_offset, header.last_offset_delta
    size = len(section)
    position = 0
    try:
        for _ in range(header.record_count):
            start = position
            byte = section[position]
            position += 1
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
            elif (second := section[position]) < 0x80 and not byte & 1:
                length = (byte & 0x7F | second << 7) >> 1
                position += 1
            else:
                length, position = read_varint(section, start)
            end = position + length
            position += 1  # attributes of a record: none are defined
            while section[position] >= 0x80:  # the timestamp
                position += 1
            position += 1
            byte = section[position]
            if byte < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                offset_delta, position = read_varint(section, position)
            byte = section[position]
            if byte < 0x80:
                key_length = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                key_length, position = read_varint(section, position)
            key = section[position : position + key_length] if key_length >= 0 else None
            if key_length > 0:
                position += key_length
            byte = section[position]
            has_value = byte != 1 if byte < 0x80 else read_varint(section, position)[0] >= 0
            if not (position < end <= size and 0 <= offset_delta <= offset_delta_max):
                raise InvalidRecord(f"A record of the batch at offset {base_offset} does not fit its length or batch")
            yield start, end, base_offset + offset_delta, key, has_value
            position = end
    except IndexError:
        raise InvalidRecord(f"A record of the batch at offset {base_offset} is cut short") from None
    if position != size:
        raise InvalidRecord(
            f"The batch at offset {base_offset} declares {header.record_count} records,"
            f" but {size - position} bytes follow them"
        )


def _timestamp_at(section: bytes, start: int) -> tuple[int, int, int]:
    """Return where a record's timestamp begins, its difference to the base timestamp, and where it ends."""
    _, position = read_varint(section, start)
    begin = position + 1
    delta, end = read_varint(section, begin)
    return begin, delta, end


def largest_timestamp_delta(section: bytes, records: Iterable[Span]) -> int:
    """Return the largest difference to the base timestamp among some records of a section, at least one."""
    return max(_timestamp_at(section, start)[1] for start, _ in records)


def shift_timestamps(section: bytes, records: Iterable[Span], shift_ms: int) -> bytes:
    """Return some records of a section with their timestamps counted from a base that is `shift_ms` earlier."""
    output = bytearray()
    body = bytearray()
    for start, end in records:
        begin, delta, after = _timestamp_at(section, start)
        body.clear()
        body += section[begin - 1 : begin]
        write_varint(body, delta + shift_ms)
        body += section[after:end]
        write_varint(output, len(body))
        output += body
    return bytes(output)
