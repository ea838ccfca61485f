"""Which of the batches that a source has sent may be appended as they are. Pure.

A look at each header, before anything is appended: the batches' bytes are checked when they are. What cannot be taken
is stopped at, never left out, since the log has to stay a prefix of the source's. So batches of transactions,
decided or not, and their markers go along as all others.
"""

import struct
from enum import Enum, auto
from typing import Final, NamedTuple

from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
)

MAGIC_V2: Final = 2
_HEAD: Final = struct.Struct(">qiib")


class Obstacle(Enum):
    """Why a batch cannot be appended now.

    LATER_EPOCH: it is of a later leader epoch than this leader's, which has to be raised first. EARLIER_EPOCH: it is
    of an earlier one than the batch before it, so it belongs to another history. OLD_FORMAT: it is of a format
    before version 2.
    """

    LATER_EPOCH = auto()
    EARLIER_EPOCH = auto()
    OLD_FORMAT = auto()


class AppendablePrefix(NamedTuple):
    """What may be appended.

    Attributes:
        size_bytes: of the batches from the first on.
        obstacle: why the next batch may not, if there is one.
        leader_epoch: the largest of all batches, up to and including the one that may not.
        base_offset: of the batch that may not; -1 if there is none.
    """

    size_bytes: int
    obstacle: Obstacle | None
    leader_epoch: int
    base_offset: int = -1


def usable_batches(records: memoryview, *, last_epoch: int, leader_epoch: int) -> AppendablePrefix:
    """Return how many bytes of whole batches may be appended to a log.

    Args:
        records: batches; the last one may be cut off.
        last_epoch: the leader epoch of the log's last batch, or -1.
        leader_epoch: this leader's.
    """
    position, end = 0, len(records)
    while end - position > MAGIC_OFFSET:
        base_offset, length, epoch, magic = (
            _HEAD.unpack_from(records, position) if end - position >= _HEAD.size else (0, 0, -1, MAGIC_V2)
        )
        if magic != MAGIC_V2:
            return AppendablePrefix(position, Obstacle.OLD_FORMAT, last_epoch, base_offset)
        size = length + LOG_OVERHEAD_BYTES
        if size < HEADER_SIZE_BYTES or size > end - position:
            break  # damaged, which appending it finds out, or cut off
        if epoch > leader_epoch:
            return AppendablePrefix(position, Obstacle.LATER_EPOCH, epoch, base_offset)
        if epoch < last_epoch:
            return AppendablePrefix(position, Obstacle.EARLIER_EPOCH, last_epoch, base_offset)
        last_epoch = epoch
        position += size
    return AppendablePrefix(end, None, last_epoch)
