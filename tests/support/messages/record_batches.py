"""Record batches as bytes, right ones and deliberately wrong ones, built without the product's own code.

Layout of a version 2 batch (Kafka's `DefaultRecordBatch`): base offset i64, batch length i32, partition leader
epoch i32, magic i8, CRC-32C u32 over everything after it, attributes i16, last offset delta i32, base timestamp
i64, max timestamp i64, producer id i64, producer epoch i16, base sequence i32, record count i32, records.
A `Batch` holds these fields; `encode` fills in length and CRC unless they are given, so a test spoils one field
with `dataclasses.replace` and leaves the rest intact.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import crc32c

from ottla_core.wire.compression import codec_of, decompress

MAGIC_V2 = 2
TIMESTAMP_MS = 1_700_000_000_000
CRC_COVERS_FROM = 21
HEADER_BYTES = 61
CODEC_BITS = 0x07
"""Of a batch's attributes."""
_AFTER_CRC = struct.Struct(">hiqqqhii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The fields of one version 2 record batch; `None` means "the right value"."""

    records: bytes
    record_count: int
    last_offset_delta: int
    base_offset: int = 0
    batch_length: int | None = None
    partition_leader_epoch: int = -1
    magic: int = MAGIC_V2
    crc: int | None = None
    attributes: int = 0
    base_timestamp_ms: int = TIMESTAMP_MS
    max_timestamp_ms: int = TIMESTAMP_MS
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1

    def encode(self) -> bytes:
        """The batch as it stands in a Produce request."""
        covered = (
            _AFTER_CRC.pack(
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp_ms,
                self.max_timestamp_ms,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.record_count,
            )
            + self.records
        )
        crc = crc32c.crc32c(covered) if self.crc is None else self.crc
        after_length = struct.pack(">ibI", self.partition_leader_epoch, self.magic, crc) + covered
        length = len(after_length) if self.batch_length is None else self.batch_length
        return struct.pack(">qi", self.base_offset, length) + after_length


def batch_of(values: Sequence[bytes | None], *, key: bytes | None = None) -> Batch:
    """An intact uncompressed batch of these values, all with the same key and timestamp."""
    records = b"".join(record(value, key=key, offset_delta=delta) for delta, value in enumerate(values))
    return Batch(records=records, record_count=len(values), last_offset_delta=len(values) - 1)


def record(
    value: bytes | None, *, key: bytes | None = None, offset_delta: int = 0, timestamp_delta: int = 0
) -> bytes:
    """One record without headers, with its length in front."""
    body = b"\x00" + varint(timestamp_delta) + varint(offset_delta) + _varbytes(key) + _varbytes(value) + varint(0)
    return varint(len(body)) + body


def old_message(value: bytes, *, magic: int, offset: int = 0) -> bytes:
    """A message of the formats before Kafka 0.11: magic 0 (no timestamp) or 1."""
    timestamp = struct.pack(">q", TIMESTAMP_MS) if magic == 1 else b""
    covered = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(covered)) + covered
    return struct.pack(">qi", offset, len(message)) + message


def varint(value: int) -> bytes:
    """A zigzag variable-length integer."""
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag & ~0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _varbytes(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def read_values(records: bytes) -> list[tuple[int, bytes]]:
    """Offset and value of each record; a batch cut off at the end is left out.

    Raises:
        AssertionError: a batch's CRC is wrong.
    """
    values: list[tuple[int, bytes]] = []
    while len(records) >= HEADER_BYTES:
        base_offset, length = struct.unpack_from(">qi", records)
        batch, records = records[: 12 + length], records[12 + length :]
        if len(batch) < 12 + length:
            break
        (crc,) = struct.unpack_from(">I", batch, 17)
        assert crc == crc32c.crc32c(batch[CRC_COVERS_FROM:]), f"wrong CRC in the batch at offset {base_offset}"
        (count,) = struct.unpack_from(">i", batch, HEADER_BYTES - 4)
        (attributes,) = struct.unpack_from(">h", batch, CRC_COVERS_FROM)
        content = decompress(codec_of(attributes & CODEC_BITS), batch[HEADER_BYTES:])
        position = 0
        for _ in range(count):
            position, offset_delta, value = _read_record(content, position)
            values.append((base_offset + offset_delta, value))
    return values


def codec_numbers(records: bytes) -> list[int]:
    """The codec of each whole batch, as its attributes number it."""
    numbers: list[int] = []
    while len(records) >= HEADER_BYTES:
        (length,) = struct.unpack_from(">i", records, 8)
        (attributes,) = struct.unpack_from(">h", records, CRC_COVERS_FROM)
        numbers.append(attributes & CODEC_BITS)
        records = records[12 + length :]
    return numbers


def _read_record(batch: bytes, position: int) -> tuple[int, int, bytes]:
    length, position = _read_varint(batch, position)
    end = position + length
    _, position = _read_varint(batch, position + 1)
    offset_delta, position = _read_varint(batch, position)
    key_length, position = _read_varint(batch, position)
    value_length, position = _read_varint(batch, position + max(key_length, 0))
    return end, offset_delta, batch[position : position + max(value_length, 0)]


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    zigzag, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), position
