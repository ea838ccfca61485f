"""What a fetch returned, batch by batch: those to copy, each as the target will take it, and how far they reach.

A batch whose offsets follow each other stays where it lies in the answer. Others are built anew: see
`sparse_batch.py` and `legacy_formats.py`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla_core.errors import CorruptMessage
from ottla_core.wire.primitives import INT32
from ottla_core.wire.record_batch import (
    BATCH_LENGTH_MIN,
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE_BYTES,
    INT32_MAX,
    LENGTH_OFFSET,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    MAGIC_V2,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    RecordBatchHeader,
    parse_header,
)
from ottla_mirror.copy.deliverable_batches import DeliverableBatches
from ottla_mirror.copy.legacy_formats import dense_batch, read_old_messages
from ottla_mirror.copy.restamp import check_crc
from ottla_mirror.copy.sparse_batch import rebuild
from ottla_mirror.offsets.leader_epochs import NO_LEADER_EPOCH

_TRANSACTIONAL_OR_CONTROL: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG


class SourceBatch(NamedTuple):
    """A piece of the source's log, in order and without gaps between pieces.

    A named tuple, because one is made for every batch.

    Attributes:
        base_offset: source offset of the first record; of the piece if there is none to copy.
        next_offset: the source offset after it.
        record_count: of records to copy; 0 if there is none.
        data: one batch whose records follow each other, writable; its producer is the source's.
        offsets: the source offset of each record; None where they follow each other too.
        leader_epoch: of the source's leader that wrote it, or -1.
    """

    base_offset: int
    next_offset: int
    record_count: int
    data: memoryview
    offsets: list[int] | None = None
    leader_epoch: int = NO_LEADER_EPOCH

    @property
    def header(self) -> RecordBatchHeader:
        """The header of `data`."""
        return RecordBatchHeader._make(HEADER.unpack_from(self.data))


NOTHING: Final = memoryview(b"")


def read_batches(
    records: memoryview, deliverable: DeliverableBatches, *, from_offset: int, target_stamps: bool
) -> Iterator[SourceBatch]:
    """Yield the pieces of one partition's answer; a batch that was cut at the end is left out.

    Args:
        records: of the answer; `data` of what is yielded lies in it.
        deliverable: knows the answer's aborted transactions.
        from_offset: the offset that was asked for; records before it are left out.
        target_stamps: whether the target's topic gives records the time of their append (LogAppendTime).

    Raises:
        CorruptMessage: a batch is damaged; those before it were yielded.
        InvalidRecord: the records of a batch that has to be built anew cannot be read.
        UnsupportedCompressionType: likewise.
        UnsupportedForMessageFormat: a batch is of a format that we do not know.
    """
    position, end = 0, len(records)
    never_whole = _TRANSACTIONAL_OR_CONTROL if target_stamps else _TRANSACTIONAL_OR_CONTROL | TIMESTAMP_TYPE_FLAG
    while end - position > MAGIC_OFFSET:
        # What nearly every batch is like comes first: one that is copied as it is.
        if end - position >= HEADER_SIZE_BYTES:
            base_offset, length, epoch, magic, _, attributes, last_delta, _, _, _, _, _, count = HEADER.unpack_from(
                records, position
            )
            following = position + LOG_OVERHEAD_BYTES + length
            if (
                magic == MAGIC_V2
                and not attributes & never_whole
                and count == last_delta + 1 > 0
                and base_offset >= from_offset
                and length >= BATCH_LENGTH_MIN
                and following <= end
            ):
                from_offset = base_offset + count
                yield SourceBatch(base_offset, from_offset, count, records[position:following], None, epoch)
                position = following
                continue
        size = LOG_OVERHEAD_BYTES + int(INT32.unpack_from(records, position + LENGTH_OFFSET)[0])
        if size <= MAGIC_OFFSET or size > INT32_MAX:
            raise CorruptMessage(f"a batch after offset {from_offset} of the source declares {size} bytes")
        if size > end - position:
            return
        piece = records[position : position + size]
        position += size
        found = (
            _read_batch(piece, deliverable, from_offset, target_stamps=target_stamps)
            if piece[MAGIC_OFFSET] >= MAGIC_V2
            else _read_old(piece, from_offset)
        )
        if found.next_offset <= from_offset:
            continue  # brokers may begin an answer with earlier batches
        yield found
        from_offset = found.next_offset


def _read_batch(
    piece: memoryview, deliverable: DeliverableBatches, from_offset: int, *, target_stamps: bool
) -> SourceBatch:
    header = parse_header(piece)
    base_offset, next_offset = header.base_offset, header.next_offset
    if not deliverable.includes(header, piece) or next_offset <= from_offset:
        return SourceBatch(base_offset, next_offset, 0, NOTHING, None, header.leader_epoch)
    is_stamped = header.attributes & TIMESTAMP_TYPE_FLAG and not target_stamps
    if header.record_count == header.last_offset_delta + 1 and base_offset >= from_offset and not is_stamped:
        return SourceBatch(base_offset, next_offset, header.record_count, piece, None, header.leader_epoch)
    check_crc(piece, base_offset)
    rebuilt = rebuild(piece, header, from_offset=from_offset)
    if not rebuilt.offsets:
        return SourceBatch(base_offset, next_offset, 0, NOTHING, None, header.leader_epoch)
    return _of_offsets(memoryview(rebuilt.data), rebuilt.offsets, next_offset, header.leader_epoch)


def _read_old(piece: memoryview, from_offset: int) -> SourceBatch:
    if len(piece) < LOG_OVERHEAD_BYTES + 14:
        raise CorruptMessage(f"a message after offset {from_offset} of the source is cut short")
    messages = read_old_messages(piece)
    kept = [each for each in messages.records if each.offset >= from_offset]
    if not kept:
        return SourceBatch(messages.records[0].offset, messages.next_offset, 0, NOTHING)
    data = memoryview(dense_batch(messages._replace(records=kept)))
    return _of_offsets(data, [each.offset for each in kept], messages.next_offset, NO_LEADER_EPOCH)


def _of_offsets(data: memoryview, offsets: list[int], next_offset: int, leader_epoch: int) -> SourceBatch:
    are_dense = offsets[-1] - offsets[0] == len(offsets) - 1
    assert len(data) >= HEADER_SIZE_BYTES
    return SourceBatch(offsets[0], next_offset, len(offsets), data, None if are_dense else offsets, leader_epoch)
