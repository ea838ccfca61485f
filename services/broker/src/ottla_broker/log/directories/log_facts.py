"""How far the log in a partition's directory reaches, read without changing anything; for a broker that is stopped.

What loading a log would mend (`log_loading.py`) is only looked at: a torn tail is not counted, and a last segment
after a crash is checked batch by batch, every CRC. Everything here blocks.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from ottla_broker.log.files.leader_epoch_checkpoint import UNDEFINED_EPOCH, read_leader_epochs
from ottla_broker.log.files.partition_metadata import PARTITION_METADATA, read_partition_metadata
from ottla_broker.log.producers.producer_snapshot import decode_snapshot, snapshot_offsets, snapshot_path
from ottla_broker.log.segments.segment import LOG_SUFFIX, segment_path
from ottla_broker.log.segments.segment_scan import FoundBatch, scan
from ottla_core.cluster.state.recovery_facts import LogFacts
from ottla_core.errors import CorruptMessage
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import RecordBatchHeader

NO_PRODUCER: Final = -1


class _SegmentFacts(NamedTuple):
    """What the batches of a segment say: the offset behind them, the last leader epoch, the highest producer id."""

    end_offset: int
    last_epoch: int = UNDEFINED_EPOCH
    highest_producer_id: int = NO_PRODUCER


def read_log_facts(
    directory: Path, topic_partition: TopicPartition, *, log_start_offset: int, high_watermark: int
) -> LogFacts:
    """Return what a partition's directory holds.

    Args:
        directory: the partition's directory.
        topic_partition: whose.
        log_start_offset: from the checkpoint; 0 if unknown.
        high_watermark: likewise.

    Raises:
        OSError: the disk failed.
    """
    base_offsets = sorted(
        int(path.stem) for path in directory.iterdir() if path.suffix == LOG_SUFFIX and path.stem.isdigit()
    )
    in_snapshots = _highest_in_snapshots(directory)
    highest = NO_PRODUCER if in_snapshots is None else in_snapshots
    end_offset, last_epoch = log_start_offset, UNDEFINED_EPOCH
    following: int | None = None
    for base_offset in reversed(base_offsets):
        segment = _read_segment(segment_path(directory, base_offset, LOG_SUFFIX), base_offset, following)
        if following is None:
            end_offset = max(segment.end_offset, log_start_offset)
        highest = max(highest, segment.highest_producer_id)
        last_epoch = max(last_epoch, segment.last_epoch)
        following = base_offset
        if last_epoch != UNDEFINED_EPOCH and in_snapshots is not None:
            break  # there is a snapshot of every segment's beginning
    if last_epoch == UNDEFINED_EPOCH:
        last_epoch = _last_epoch_in_checkpoint(directory, end_offset)
    return LogFacts(
        topic=topic_partition.topic,
        index=topic_partition.partition,
        topic_id=_topic_id(directory),
        last_epoch=last_epoch,
        end_offset=end_offset,
        high_watermark=high_watermark,
        highest_producer_id=highest,
        created_ms=_created_ms(directory),
    )


def _read_segment(path: Path, base_offset: int, following: int | None) -> _SegmentFacts:
    found = _SegmentFacts(base_offset)
    for header in _batches(path, base_offset, following):
        found = _SegmentFacts(
            header.next_offset, header.leader_epoch, max(found.highest_producer_id, header.producer_id)
        )
    return found


def _batches(path: Path, base_offset: int, following: int | None) -> Iterator[RecordBatchHeader]:
    """Yield the headers of all batches whose CRC is right."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for found in scan(descriptor, os.fstat(descriptor).st_size, base_offset, following):
            if isinstance(found, FoundBatch):
                yield found.header
    finally:
        os.close(descriptor)


def _highest_in_snapshots(directory: Path) -> int | None:
    """Return the highest producer id of all snapshots; None if there is no readable one."""
    highest = None
    for offset in snapshot_offsets(directory):
        try:
            entries = decode_snapshot(snapshot_path(directory, offset).read_bytes())
        except CorruptMessage:
            continue
        highest = max([NO_PRODUCER if highest is None else highest, *(entry.producer_id for entry in entries)])
    return highest


def _last_epoch_in_checkpoint(directory: Path, end_offset: int) -> int:
    """Return the last leader epoch that began below the log's end, by the checkpoint file."""
    try:
        epochs = read_leader_epochs(directory)
    except CorruptMessage:
        return UNDEFINED_EPOCH
    return max((entry.epoch for entry in epochs.entries if entry.start_offset < end_offset), default=UNDEFINED_EPOCH)


def _created_ms(directory: Path) -> int:
    """Return when the file with the topic's id was written, which does not change any more; 0 if there is none."""
    try:
        return (directory / PARTITION_METADATA).stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0


def _topic_id(directory: Path) -> UUID | None:
    try:
        return read_partition_metadata(directory)
    except CorruptMessage:
        return None
