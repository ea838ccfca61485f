"""A batch of the source becomes one of the target: another producer, another sequence, and no record is touched.

The batch is changed where it lies, and begins with offset 0 then, as brokers want it from producers. Its CRC is
verified before, so that damage is never given a good CRC, and it is computed anew after. Gone are the marks that make
sense at the source only: that the batch is part of a transaction there, when compaction may drop its tombstones, and
that the source's broker has stamped it, which no broker takes from a producer.
"""

import struct
from typing import Final

from crc32c import crc32c

from ottla_core.errors import CorruptMessage
from ottla_core.wire.record_batch import (
    ATTRIBUTES_OFFSET,
    CRC_OFFSET,
    DELETE_HORIZON_FLAG,
    LOG_OVERHEAD_BYTES,
    NO_LEADER_EPOCH,
    PREFIX,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
)

PRODUCER_OFFSET: Final = 43
"""Where producer id, epoch and base sequence stand in a batch."""
PRODUCER: Final = struct.Struct(">qhi")

_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_CRC_AND_ATTRIBUTES: Final = struct.Struct(">Ih")
_MARKS_OF_THE_SOURCE: Final = TRANSACTIONAL_FLAG | DELETE_HORIZON_FLAG | TIMESTAMP_TYPE_FLAG


def check_crc(batch: memoryview, base_offset: int) -> None:
    """Compare a batch, exactly one, with its CRC.

    Raises:
        CorruptMessage: it does not match.
    """
    if crc32c(batch[ATTRIBUTES_OFFSET:]) != _CRC.unpack_from(batch, CRC_OFFSET)[0]:
        raise _damaged(base_offset)


def restamp(
    batch: memoryview,
    base_offset: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    is_transactional: bool = False,
) -> None:
    """Make a batch one of this producer, where it lies.

    Args:
        batch: exactly one, writable.
        base_offset: its offset at the source, for the message.
        producer_id: of the target.
        producer_epoch: of that producer.
        base_sequence: of its first record.
        is_transactional: whether it becomes part of a transaction of that producer.

    Raises:
        CorruptMessage: the batch does not match its CRC; it is left as it is.
    """
    # Verified in the same function that computes the new one: damage in between would be laundered.
    covered = batch[ATTRIBUTES_OFFSET:]
    crc, attributes = _CRC_AND_ATTRIBUTES.unpack_from(batch, CRC_OFFSET)
    if crc32c(covered) != crc:
        raise _damaged(base_offset)
    PREFIX.pack_into(batch, 0, 0, len(batch) - LOG_OVERHEAD_BYTES, NO_LEADER_EPOCH)
    stamped = attributes & ~_MARKS_OF_THE_SOURCE | (TRANSACTIONAL_FLAG if is_transactional else 0)
    if stamped != attributes:
        _ATTRIBUTES.pack_into(batch, ATTRIBUTES_OFFSET, stamped)
    PRODUCER.pack_into(batch, PRODUCER_OFFSET, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(batch, CRC_OFFSET, crc32c(covered))


def _damaged(base_offset: int) -> CorruptMessage:
    return CorruptMessage(f"the batch at offset {base_offset} of the source does not match its CRC")
