"""The header of a record batch, version 2: the one unit in which records are sent, stored and replicated. Pure.

A batch is a 61-byte header and a section of records, which is compressed as a whole or not at all. A broker
treats the section as opaque: everything it needs is in the header, and the CRC-32C in the header covers all
that follows it. The three fields before the CRC (base offset, length, leader epoch) are outside its reach, so
that a leader can assign offsets without touching the rest. Source: the "Record Batch" section of Kafka's
protocol documentation.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla_core.errors import CorruptMessage, UnsupportedForMessageFormat

Buffer = bytes | bytearray | memoryview
"""What batches are read from."""

MAGIC_V2: Final = 2

LENGTH_OFFSET: Final = 8
LEADER_EPOCH_OFFSET: Final = 12
MAGIC_OFFSET: Final = 16
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21
LAST_OFFSET_DELTA_OFFSET: Final = 23
HEADER_SIZE_BYTES: Final = 61

LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and length: the part of a batch that its length field does not count."""

PREFIX_SIZE_BYTES: Final = 16
"""Base offset, length and leader epoch: the part that a leader writes anew."""

BATCH_LENGTH_MIN: Final = HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
PREFIX: Final = struct.Struct(">qii")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_CRC: Final = struct.Struct(">I")

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

INT32_MAX: Final = 2**31 - 1


class TimestampType(IntEnum):
    """Who set a batch's timestamps; the value is the attribute bit."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class RecordBatchHeader(NamedTuple):
    """The fields of a batch header in their order on disk.

    A named tuple, because it is built straight from `struct` on paths that are run for every batch.
    """

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the batch's last record (which compaction may have removed)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, or -1 without an idempotent producer."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec_id(self) -> int:
        """The compression codec's number; see `compression.Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a transaction marker instead of data."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones; stored in place of the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence number `increment` steps on; numbers wrap from 2^31 - 1 to 0."""
    return (sequence + increment) & INT32_MAX


def decrement_sequence(sequence: int, decrement: int) -> int:
    """Return the sequence number `decrement` steps back; numbers wrap from 0 to 2^31 - 1."""
    return (sequence - decrement) & INT32_MAX


def parse_header(buffer: Buffer, position: int = 0) -> RecordBatchHeader:
    """Return the header at `position`, checked for magic and a possible length.

    Raises:
        CorruptMessage: the buffer is too short for a header, or the length or last offset delta is impossible.
        UnsupportedForMessageFormat: the batch has another magic than 2.
    """
    if position < 0 or len(buffer) - position < HEADER_SIZE_BYTES:
        raise CorruptMessage(
            f"A record batch needs {HEADER_SIZE_BYTES} bytes of header, {max(0, len(buffer) - position)} are left"
        )
    header = RecordBatchHeader._make(HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC_V2:
        raise UnsupportedForMessageFormat(
            f"Record batch has magic {header.magic}; only magic 2 (Kafka 0.11 and later) is supported"
        )
    if header.batch_length < BATCH_LENGTH_MIN:
        raise CorruptMessage(f"Record batch declares a length of {header.batch_length} bytes, less than a header")
    if header.last_offset_delta < 0:
        raise CorruptMessage(f"Record batch declares a last offset delta of {header.last_offset_delta}")
    return header


def crc_is_valid(batch: Buffer, header: RecordBatchHeader) -> bool:
    """Return whether the batch (exactly one, from its first byte) matches the CRC in its header."""
    return crc32c(memoryview(batch)[ATTRIBUTES_OFFSET : header.size_bytes]) == header.crc


def iterate_batches(buffer: Buffer) -> Iterator[tuple[RecordBatchHeader, memoryview]]:
    """Yield each whole batch of a buffer with its header; a partial batch at the end is left out, as in Kafka.

    Raises:
        CorruptMessage: a header is impossible, or a CRC does not match.
        UnsupportedForMessageFormat: a batch has another magic than 2.
    """
    view = memoryview(buffer)
    position = 0
    end = len(view)
    while end - position >= HEADER_SIZE_BYTES:
        header = parse_header(view, position)
        size = header.size_bytes
        if size > end - position:
            return
        batch = view[position : position + size]
        if not crc_is_valid(batch, header):
            raise CorruptMessage(f"Record batch at offset {header.base_offset} does not match its CRC")
        yield header, batch
        position += size


def batch_prefix(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """Return the first 16 bytes of a batch: all that a leader must change to assign offsets."""
    return PREFIX.pack(base_offset, batch_length, leader_epoch)


def stamped_header(
    header: RecordBatchHeader, rest: Buffer, *, base_offset: int, leader_epoch: int, max_timestamp: int
) -> bytes:
    """Return a 61-byte header that marks the batch with the log append time, its CRC renewed.

    Args:
        header: the batch's present header.
        rest: the bytes after the header, which stay as they are.
        base_offset: offset of the first record.
        leader_epoch: the leader's epoch.
        max_timestamp: the log append time in milliseconds.
    """
    stamped = header._replace(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=header.attributes | TIMESTAMP_TYPE_FLAG,
        max_timestamp=max_timestamp,
    )
    return pack_header(stamped, rest)


def placed_batch(
    batch: memoryview, header: RecordBatchHeader, base_offset: int, leader_epoch: int, append_time_ms: int
) -> tuple[Buffer, Buffer]:
    """Return the two parts of a batch as it is stored: with its offset and epoch, and with the time of the append.

    Without a time (`NO_TIMESTAMP`) only the first 16 bytes are new, which its CRC does not cover.
    """
    if append_time_ms == NO_TIMESTAMP:
        return PREFIX.pack(base_offset, header.batch_length, leader_epoch), batch[PREFIX_SIZE_BYTES:]
    rest = batch[HEADER_SIZE_BYTES:]
    return (
        stamped_header(
            header, rest, base_offset=base_offset, leader_epoch=leader_epoch, max_timestamp=append_time_ms
        ),
        rest,
    )


def pack_header(header: RecordBatchHeader, rest: Buffer) -> bytes:
    """Return the header's 61 bytes with the CRC computed over itself and `rest`; `header.crc` is ignored."""
    covered = _AFTER_CRC.pack(*header[5:])
    crc = crc32c(rest, crc32c(covered))
    return (
        PREFIX.pack(header.base_offset, header.batch_length, header.leader_epoch)
        + bytes((header.magic,))
        + _CRC.pack(crc)
        + covered
    )
