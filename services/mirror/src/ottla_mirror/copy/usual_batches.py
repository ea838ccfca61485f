"""The batches that nearly every answer consists of: verified and stamped in one pass. Pure.

Usual is a batch of the offsets that are to follow, with one record for each, of the source's leader epoch so far,
and with a codec as its only attribute. It is copied as it is, but for what `restamp.py` says. The cost of a mirror is
that of a batch, so the pass makes no calls but those it has to, and no objects but those that are kept. Whatever is
not usual ends it, and `source_batch.py` says what that is.
"""

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla_core.wire.record_batch import (
    ATTRIBUTES_OFFSET,
    BATCH_LENGTH_MIN,
    CODEC_MASK,
    HEADER_SIZE_BYTES,
    INT32_MAX,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
)
from ottla_mirror.copy.restamp import PRODUCER, PRODUCER_OFFSET
from ottla_mirror.copy.source_batch import SourceBatch

_UP_TO_CRC: Final = struct.Struct(">qiibI")
"""Base offset, length, leader epoch, magic, CRC."""
_HEADER: Final = struct.Struct(">qiibIHi30xi")
"""The same, then attributes and last offset delta, and behind timestamps and producer the count of records."""


class Expected(NamedTuple):
    """What the next batch has to be for a usual one, and what it becomes.

    Attributes:
        base_offset: of the source.
        leader_epoch: of the source's leader that wrote what comes before it.
        producer_id: of the target.
        producer_epoch: of that producer.
        sequence: of its first record.
    """

    base_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int


def stamp_usual_batches(records: memoryview, expected: Expected) -> tuple[list[SourceBatch], int]:
    """Make the batches at the beginning of an answer batches of the target's producer, where they lie.

    Args:
        records: of one partition, writable.
        expected: of the first one; offsets and sequences of the others follow.

    Returns:
        The batches up to the first that is not usual, is not whole, or does not match its CRC, and where that begins.
    """
    base_offset, known_epoch, producer_id, producer_epoch, sequence = expected
    read, stamp, stamp_producer, make = _HEADER.unpack_from, _UP_TO_CRC.pack_into, PRODUCER.pack_into, tuple.__new__
    stamped: list[SourceBatch] = []
    position, end = 0, len(records)
    last_position = end - HEADER_SIZE_BYTES
    while position <= last_position:
        offset, length, epoch, magic, crc, attributes, last_delta, count = read(records, position)
        following = position + length + LOG_OVERHEAD_BYTES
        if (
            offset != base_offset
            or epoch != known_epoch
            or magic != MAGIC_V2
            or attributes > CODEC_MASK
            or last_delta < 0
            or count != last_delta + 1
            or length < BATCH_LENGTH_MIN
            or following > end
        ):
            break
        data = records[position:following]
        covered = data[ATTRIBUTES_OFFSET:]
        # Verified in the same function that computes the new one: damage in between would be laundered.
        if crc32c(covered) != crc:
            break
        stamp_producer(data, PRODUCER_OFFSET, producer_id, producer_epoch, sequence)
        # To derive the new CRC from the old one, as CRCs are linear, would take longer in Python than to read 16 KB.
        stamp(data, 0, 0, length, NO_LEADER_EPOCH, MAGIC_V2, crc32c(covered))
        base_offset += count
        sequence = (sequence + count) & INT32_MAX
        # The class's own constructor is one more call, for every batch.
        stamped.append(make(SourceBatch, (offset, base_offset, count, data, None, epoch)))
        position = following
    return stamped, position
