"""Checking a segment after a crash: every CRC, damage cut out or cut off, both indexes rebuilt.

Bytes after the last valid batch of a log's last segment are what a crash leaves of an unfinished write: they
are cut off. Damage that valid batches (or later segments) follow is something else, a disk that lost or changed
acknowledged records. Then the original file is kept as `<base offset>.log.corrupt` for whoever can save more
from it, the log is noted as one that lacks records (`lost_records.py`), and the segment is written anew with all
that is valid. Damaged bytes are never passed on, and every
loss is logged with its offsets.

The transaction index is made anew later, as it needs to know the log before the segment (`producer_loading.py`).
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from ottla_broker.log.files.checkpoint_file import TEMPORARY_SUFFIX, sync_directory
from ottla_broker.log.files.leader_epoch_checkpoint import EpochRun
from ottla_broker.log.loading.epoch_runs import EpochRuns
from ottla_broker.log.loading.lost_records import note_lost_from
from ottla_broker.log.segments.index_building import IndexBuilder
from ottla_broker.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from ottla_broker.log.segments.segment_scan import DamagedBytes, FoundBatch, scan
from ottla_core.wire.record_batch import RecordBatchHeader

CORRUPT_SUFFIX: Final = ".corrupt"
_COPY_CHUNK_BYTES: Final = 1024 * 1024

_logger: Final = structlog.get_logger("log.recovery")


@dataclass(slots=True)
class Damage:
    """A damaged stretch of a segment's file.

    Attributes:
        position: where it starts in the file as it was.
        size_bytes: how long it is.
        first_offset: the offset expected there.
        end_offset: the offset at which valid batches go on; None if nothing follows in the log.
    """

    position: int
    size_bytes: int
    first_offset: int
    end_offset: int | None = None


@dataclass(frozen=True, slots=True)
class SegmentRecovery:
    """What recovery found in one segment.

    Attributes:
        next_offset: the offset after the last valid batch.
        size_bytes: the size of the file now.
        damage: stretches that were cut out, or off the end.
        corrupt_copy: where the original file is kept, if anything was cut out.
        epochs: the batches' leader epochs.
        has_markers: whether transactions may have ended in it.
    """

    next_offset: int
    size_bytes: int
    damage: tuple[Damage, ...]
    corrupt_copy: Path | None
    epochs: tuple[EpochRun, ...]
    has_markers: bool


class _Rebuild:
    """Collects what the valid batches add up to, and rebuilds both indexes along the way."""

    def __init__(self, directory: Path, base_offset: int, index_interval_bytes: int) -> None:
        self.indexes = IndexBuilder(
            segment_path(directory, base_offset, INDEX_SUFFIX),
            segment_path(directory, base_offset, TIME_INDEX_SUFFIX),
            base_offset,
            index_interval_bytes,
        )
        self.next_offset = base_offset
        self.epochs = EpochRuns()
        self.has_markers = False

    def add(self, header: RecordBatchHeader) -> None:
        """Take in the next valid batch."""
        self.indexes.add(header)
        self.epochs.add(header)
        self.has_markers = self.has_markers or header.is_control
        self.next_offset = header.next_offset


def recover_segment(
    directory: Path, base_offset: int, end_offset: int | None, index_interval_bytes: int
) -> SegmentRecovery:
    """Check, repair and re-index one segment.

    Args:
        directory: the partition's directory.
        base_offset: the segment's base offset.
        end_offset: base offset of the next segment; None for the last one, whose torn tail is cut.
        index_interval_bytes: the topic's `index.interval.bytes`.

    Raises:
        OSError: the disk failed.
    """
    path = segment_path(directory, base_offset, LOG_SUFFIX)
    rebuild = _Rebuild(directory, base_offset, index_interval_bytes)
    damage: list[Damage] = []
    corrupt_copy = None
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        _scan_into(rebuild, damage, scan(descriptor, size, base_offset, end_offset))
        for stretch in damage:
            if stretch.end_offset is None:
                stretch.end_offset = end_offset
        if holes := [stretch for stretch in damage if stretch.end_offset is not None]:
            note_lost_from(directory, holes[0].first_offset)
            corrupt_copy = _rewrite_without(path, descriptor, size, damage)
        elif damage:
            os.ftruncate(descriptor, rebuild.indexes.position)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    rebuild.indexes.finish()
    _report(path, damage, corrupt_copy)
    size_bytes = rebuild.indexes.position
    epochs = tuple(rebuild.epochs)
    return SegmentRecovery(rebuild.next_offset, size_bytes, tuple(damage), corrupt_copy, epochs, rebuild.has_markers)


def _scan_into(rebuild: _Rebuild, damage: list[Damage], findings: Iterable[FoundBatch | DamagedBytes]) -> None:
    for found in findings:
        if isinstance(found, DamagedBytes):
            damage.append(Damage(found.position, found.size_bytes, rebuild.next_offset))
        else:
            if damage and damage[-1].end_offset is None:
                damage[-1].end_offset = found.header.base_offset
            rebuild.add(found.header)


def _rewrite_without(path: Path, descriptor: int, size: int, damage: Sequence[Damage]) -> Path:
    """Replace the segment's file by one without the damage; return where the original is kept.

    The original gets its second name before the new file takes its first one, so a crash loses neither.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        position = 0
        for stretch in damage:
            _copy(descriptor, target, position, stretch.position)
            position = stretch.position + stretch.size_bytes
        _copy(descriptor, target, position, size)
        os.fsync(target)
    finally:
        os.close(target)
    corrupt_copy = free_corrupt_path(path)
    corrupt_copy.hardlink_to(path)
    temporary.replace(path)
    sync_directory(path.parent)
    return corrupt_copy


def free_corrupt_path(path: Path) -> Path:
    """Return a name that is not taken, to keep a segment's file under that is out of service."""
    found = path.with_name(path.name + CORRUPT_SUFFIX)
    number = 0
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}{CORRUPT_SUFFIX}.{number}")
    return found


def _copy(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        chunk = os.pread(source, min(_COPY_CHUNK_BYTES, end - start), start)
        assert chunk, "the file is as long as the scan found it"
        start += len(chunk)
        while chunk:
            chunk = chunk[os.write(target, chunk) :]


def _report(path: Path, damage: Sequence[Damage], corrupt_copy: Path | None) -> None:
    for stretch in damage:
        if stretch.end_offset is None:
            _logger.warning(
                "cut an unfinished write off the log's end",
                file=str(path),
                bytes=stretch.size_bytes,
                position=stretch.position,
                from_offset=stretch.first_offset,
            )
        else:
            _logger.error(
                "records are lost: the segment is damaged in the middle; its original file is kept",
                file=str(path),
                kept_as=str(corrupt_copy),
                bytes=stretch.size_bytes,
                position=stretch.position,
                first_lost_offset=stretch.first_offset,
                last_lost_offset=stretch.end_offset - 1,
            )
