"""A log's producers from what is on the disk: the newest usable snapshot, some batches before it, all after it.

It is needed when a log is opened, and as of an earlier offset when a log is truncated. Everything here blocks, for as
long as it takes to walk up to a whole segment: seconds, if its batches are small.

No file says when a producer's last batch was written, but it was no later than its segment was. So the producer
counts as heard of then. Where that segment has been deleted, only the times of the records count: nothing is there
that could be written twice, and a producer that is gone must not be kept from start to start.

The same walk finds the aborted transactions of segments whose transaction index a recovery has to make anew.
"""

from collections import defaultdict
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import structlog

from ottla_broker.log.producers.producer_history import refill_batches
from ottla_broker.log.producers.producer_snapshot import decode_snapshot, snapshot_offsets, snapshot_path
from ottla_broker.log.producers.producer_state import EndedTransaction, ProducerStates
from ottla_broker.log.segments.segment import LogSegment
from ottla_broker.log.segments.segment_list import SegmentList
from ottla_broker.log.segments.stored_markers import marker_in_segment
from ottla_broker.log.segments.transaction_index import AbortedTransaction
from ottla_core.errors import CorruptMessage
from ottla_core.promotion import PROMOTION_LEAP
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import NO_LEADER_EPOCH

_logger: Final = structlog.get_logger("log.loading")

OnEnded = Callable[[LogSegment, EndedTransaction], None]
"""Told of each transaction that ends, and of the segment that has its marker."""


def load_producers(
    topic_partition: TopicPartition, directory: Path, segments: SegmentList, *, log_end_offset: int
) -> ProducerStates:
    """Return the producers as of the log's end, and remove the snapshots that no start will need; raises OSError."""
    producers = read_producers(
        topic_partition, directory, segments, offset=log_end_offset, log_end_offset=log_end_offset
    )
    remove_snapshots(directory, segments, log_end_offset)
    return producers


def read_producers(
    topic_partition: TopicPartition, directory: Path, segments: SegmentList, *, offset: int, log_end_offset: int
) -> ProducerStates:
    """Return the producers of the batches that end before an offset; changes nothing.

    Without a snapshot all batches that are still there count, even if they lie before the log start offset.

    Raises:
        OSError: the disk failed.
        CorruptMessage: a batch is damaged.
    """
    producers, replay_from = _newest_snapshot(topic_partition, directory, segments, offset, log_end_offset)
    _replay(producers, segments, replay_from, offset)
    _note_when_written(producers, segments)
    return producers


def _newest_snapshot(
    topic_partition: TopicPartition, directory: Path, segments: SegmentList, offset: int, log_end_offset: int
) -> tuple[ProducerStates, int]:
    """Return the producers of the newest usable snapshot up to an offset, and which offset it is of."""
    producers = ProducerStates(topic_partition)
    replay_from = segments[0].base_offset
    for snapshot_offset in reversed(snapshot_offsets(directory)):
        path = snapshot_path(directory, snapshot_offset)
        if not segments[0].base_offset <= snapshot_offset <= offset:
            continue
        try:
            producers = ProducerStates(topic_partition, decode_snapshot(path.read_bytes()))
        except CorruptMessage as error:
            _logger.warning("a producer snapshot is unreadable and left out", file=str(path), problem=str(error))
            continue
        replay_from = snapshot_offset
        refill_batches(producers, segments, snapshot_offset, log_end_offset)
        break
    return producers, replay_from


def rebuild_transaction_indexes(
    topic_partition: TopicPartition,
    directory: Path,
    segments: SegmentList,
    recovered: Collection[int],
    *,
    log_end_offset: int,
) -> None:
    """Make the transaction indexes of recovered segments anew.

    Until this is done the former ones stay, so that a crash on the way does not leave segments without their aborts
    that no later recovery would look at.

    Args:
        topic_partition: whose log it is.
        directory: where it is.
        segments: all segments, recovered.
        recovered: the base offsets of those that were recovered.
        log_end_offset: the log's end.

    Raises:
        OSError: the disk failed.
        CorruptMessage: a batch is damaged.
    """
    aborted: defaultdict[int, list[AbortedTransaction]] = defaultdict(list)

    def note(segment: LogSegment, ended: EndedTransaction) -> None:
        if segment.base_offset in recovered and not ended.is_commit:
            aborted[segment.base_offset].append(aborted_entry(ended))

    first = min(recovered)
    producers, replay_from = _newest_snapshot(topic_partition, directory, segments, first, log_end_offset)
    _replay(producers, segments, replay_from, log_end_offset, note)
    for segment in segments:
        if segment.base_offset in recovered:
            segment.replace_transaction_index(aborted[segment.base_offset])


def aborted_entry(ended: EndedTransaction) -> AbortedTransaction:
    """Return the index entry of a transaction that was aborted."""
    return AbortedTransaction(0, ended.producer_id, ended.first_offset, ended.marker_offset, ended.last_stable_offset)


def remove_snapshots(directory: Path, segments: SegmentList, log_end_offset: int) -> None:
    """Remove snapshots beyond either end of the log, unreadable ones, and older ones that belong to no segment.

    Raises:
        OSError: the disk failed.
    """
    base_offsets = {segment.base_offset for segment in segments}
    newest_is_found = False
    for offset in reversed(snapshot_offsets(directory)):
        path = snapshot_path(directory, offset)
        if not segments[0].base_offset <= offset <= log_end_offset or (
            newest_is_found and offset not in base_offsets
        ):
            path.unlink()
        elif not newest_is_found:
            try:
                decode_snapshot(path.read_bytes())
                newest_is_found = True
            except CorruptMessage:
                path.unlink()


def _replay(
    producers: ProducerStates,
    segments: SegmentList,
    from_offset: int,
    end_offset: int,
    on_ended: OnEnded | None = None,
) -> None:
    if from_offset >= end_offset:
        return
    number = segments.number_for(from_offset)
    latest_epoch = _last_epoch_before(segments, number)  # the first batch may be one behind a promotion
    for segment in list(segments)[number:]:
        start = segment.offset_index.position_for_offset(max(segment.base_offset, from_offset - 1))
        for position, header in segment.walk(start):
            if header.last_offset >= end_offset:
                return
            if header.base_offset >= from_offset:
                if latest_epoch >= 0 and header.leader_epoch - latest_epoch >= PROMOTION_LEAP:
                    producers.clear(are_of_source=True)  # those so far are of another cluster
                ended = producers.replay(header, marker=marker_in_segment(segment, position, header))
                if ended is not None and on_ended is not None:
                    on_ended(segment, ended)
            latest_epoch = header.leader_epoch


def _note_when_written(producers: ProducerStates, segments: SegmentList) -> None:
    """Note of each producer that its last batch was written no later than the segment that holds it."""
    modified_ms: dict[int, int] = {}
    for entry in producers:
        if entry.last_offset < segments[0].base_offset:
            continue
        number = segments.number_for(entry.last_offset)
        if number not in modified_ms:
            modified_ms[number] = segments[number].modified_ms()
        entry.written_ms = modified_ms[number]


def _last_epoch_before(segments: SegmentList, number: int) -> int:
    """Return the leader epoch of the last batch before a segment, or -1 if there is none any more."""
    for segment in reversed(list(segments)[:number]):
        if (header := segment.last_header()) is not None:
            return header.leader_epoch
    return NO_LEADER_EPOCH
