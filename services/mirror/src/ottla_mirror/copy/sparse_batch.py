"""Batches that a broker does not take as they are get their records' offsets, and only these, written anew.

Compaction leaves holes in a batch, and brokers refuse a batch from a producer whose offsets do not follow each other
(INVALID_RECORD). So is a batch cut that begins before the offset where copying begins. A batch that the source's
broker has stamped (LogAppendTime) has records with timestamps of which only the batch's counts: where the target's
topic keeps the producer's timestamps, they get that one. Keys, values, headers and the codec stay.
"""

from typing import NamedTuple

from ottla_core.errors import InvalidRecord
from ottla_core.wire.compression import codec_of, compress
from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    RecordBatchHeader,
    TimestampType,
    pack_header,
)
from ottla_core.wire.records import read_varint, records_section, write_varint


class RebuiltBatch(NamedTuple):
    """A batch whose records follow each other.

    Attributes:
        data: the batch, of the source's producer still; b"" if no record is left.
        header: its header.
        offsets: the source offset of each record.
    """

    data: bytearray
    header: RecordBatchHeader
    offsets: list[int]


def rebuild(batch: memoryview, header: RecordBatchHeader, *, from_offset: int = 0) -> RebuiltBatch:
    """Return a batch with its records from an offset on, densely numbered.

    Args:
        batch: exactly one; its CRC has been verified.
        header: the batch's.
        from_offset: records of lower offsets are left out.

    Raises:
        InvalidRecord: the records cannot be read.
        UnsupportedCompressionType: the codec is unknown.
    """
    section = records_section(batch, header)
    is_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    output = bytearray()
    offsets: list[int] = []
    latest = None
    position = 0
    try:
        for _ in range(header.record_count):
            length, start = read_varint(section, position)
            position = start + length
            timestamp_delta, delta_at = read_varint(section, start + 1)
            offset_delta, rest_at = read_varint(section, delta_at)
            if length < 0 or not rest_at <= position <= len(section):
                raise InvalidRecord(f"A record of the batch at offset {header.base_offset} does not fit its length")
            offset = header.base_offset + offset_delta
            if offset < from_offset:
                continue
            body = bytearray(section[start : start + 1])
            write_varint(body, 0 if is_stamped else timestamp_delta)
            write_varint(body, len(offsets))
            body += section[rest_at:position]
            write_varint(output, len(body))
            output += body
            offsets.append(offset)
            latest = timestamp_delta if latest is None else max(latest, timestamp_delta)
    except IndexError:
        raise InvalidRecord(f"A record of the batch at offset {header.base_offset} is cut short") from None
    if latest is None:
        return RebuiltBatch(bytearray(), header, [])
    compressed = compress(codec_of(header.codec_id), output)
    rebuilt = header._replace(
        base_offset=offsets[0],
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(compressed),
        last_offset_delta=len(offsets) - 1,
        base_timestamp=header.max_timestamp if is_stamped else header.base_timestamp,
        max_timestamp=header.max_timestamp if is_stamped else header.base_timestamp + latest,
        record_count=len(offsets),
    )
    return RebuiltBatch(bytearray(pack_header(rebuilt, compressed) + compressed), rebuilt, offsets)
