"""Messages of the formats 0 and 1, which topics from before Kafka 0.11 hold, as batches of format 2.

A message stands alone, or is a *wrapper* whose value is a compressed set of messages. Each becomes one batch,
whatever else the answer holds: which batches there are must follow from the source alone.

Source: Kafka's LegacyRecord and AbstractLegacyRecordBatch; KIP-31 (relative offsets), KIP-32 (timestamps).
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla_core.errors import CorruptMessage, InvalidRecord
from ottla_core.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, codec_of, decompress
from ottla_core.wire.record_batch import CODEC_MASK, LOG_OVERHEAD_BYTES, NO_TIMESTAMP, TIMESTAMP_TYPE_FLAG, Buffer
from ottla_core.wire.records import Record, encode_batch

MAGIC_V1: Final = 1
_HEAD: Final = struct.Struct(">qiIbb")
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_CRC_COVERS_FROM: Final = 16
_LENGTH_MIN: Final = 14


class OldMessages(NamedTuple):
    """A message, or the messages of a wrapper.

    Attributes:
        records: in order; offsets may have gaps.
        codec: in which they were compressed.
        next_offset: the source offset after them.
    """

    records: list[Record]
    codec: Codec
    next_offset: int


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def read_old_messages(message: memoryview) -> OldMessages:
    """Return what one whole message, from its offset on, holds.

    Raises:
        CorruptMessage: its CRC or a length is wrong.
        InvalidRecord: a wrapper cannot be decompressed.
        UnsupportedCompressionType: its codec is unknown.
    """
    outer = _read_message(message)
    codec = codec_of(outer.attributes & CODEC_MASK)
    if codec is Codec.NONE:
        record = Record(outer.offset, outer.timestamp, outer.key, outer.value)
        return OldMessages([record], codec, outer.offset + 1)
    if outer.value is None:
        raise InvalidRecord(f"The compressed message at offset {outer.offset} holds nothing")
    inner = list(_messages_in(decompress(codec, outer.value, size_bytes_max=DECOMPRESSED_BYTES_MAX)))
    if not inner:
        raise InvalidRecord(f"The compressed message at offset {outer.offset} holds nothing")
    # Format 1 counts within the wrapper, whose own offset is that of the last message.
    base = outer.offset - inner[-1].offset if outer.magic >= MAGIC_V1 else 0
    stamped = outer.timestamp if outer.magic >= MAGIC_V1 and outer.attributes & TIMESTAMP_TYPE_FLAG else None
    records = [
        Record(base + each.offset, each.timestamp if stamped is None else stamped, each.key, each.value)
        for each in inner
    ]
    return OldMessages(records, codec, records[-1].offset + 1)


def dense_batch(messages: OldMessages) -> bytearray:
    """Return the messages, at least one, as a batch of format 2 whose offsets follow each other."""
    first = messages.records[0].offset
    dense = [each._replace(offset=first + number) for number, each in enumerate(messages.records)]
    return bytearray(encode_batch(dense, codec=messages.codec))


def _messages_in(message_set: bytes) -> Iterator[_Message]:
    view = memoryview(message_set)
    position = 0
    while position + LOG_OVERHEAD_BYTES <= len(view):
        (length,) = _INT32.unpack_from(view, position + 8)
        end = position + LOG_OVERHEAD_BYTES + length
        if length < _LENGTH_MIN or end > len(view):
            raise CorruptMessage("a compressed message of the source holds one that is cut short")
        yield _read_message(view[position:end])
        position = end


def _read_message(message: memoryview) -> _Message:
    offset, length, crc, magic, attributes = _HEAD.unpack_from(message)
    if length + LOG_OVERHEAD_BYTES != len(message) or length < _LENGTH_MIN:
        raise CorruptMessage(f"the message at offset {offset} of the source has an impossible length")
    if zlib.crc32(message[_CRC_COVERS_FROM:]) != crc:
        raise CorruptMessage(f"the message at offset {offset} of the source does not match its CRC")
    position = _HEAD.size
    timestamp = NO_TIMESTAMP
    try:
        if magic >= MAGIC_V1:
            (timestamp,) = _INT64.unpack_from(message, position)
            position += _INT64.size
        key, position = _read_bytes(message, position)
        value, position = _read_bytes(message, position)
    except struct.error:
        position = -1
    if position != len(message):
        raise CorruptMessage(f"the message at offset {offset} of the source has fields that do not fit")
    return _Message(offset, magic, attributes, timestamp, key, value)


def _read_bytes(message: Buffer, position: int) -> tuple[bytes | None, int]:
    (size,) = _INT32.unpack_from(message, position)
    position += _INT32.size
    if size < 0:
        return None, position
    return bytes(message[position : position + size]), position + size
