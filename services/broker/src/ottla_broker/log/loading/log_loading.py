"""Bringing a partition's directory back to life: its segments, end, producers and leader epochs.

After a clean stop the files are believed, apart from indexes that are missing or cannot be right, which are
rebuilt. After a crash every segment from the recovery point on goes through recovery. Source of the order of
steps: Kafka's LogLoader.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import structlog

from ottla_broker.log.files.checkpoint_file import TEMPORARY_SUFFIX
from ottla_broker.log.files.leader_epoch_checkpoint import UNDEFINED_EPOCH, EpochRun, LeaderEpochs, read_leader_epochs
from ottla_broker.log.files.storage_problems import StorageProblems
from ottla_broker.log.loading.epoch_runs import runs_in
from ottla_broker.log.loading.lost_records import note_lost_from, read_lost_from
from ottla_broker.log.loading.recovery import free_corrupt_path, recover_segment
from ottla_broker.log.producers.producer_loading import load_producers, rebuild_transaction_indexes
from ottla_broker.log.producers.producer_state import ProducerStates
from ottla_broker.log.segments.index_file import INT32_MAX, IndexFile
from ottla_broker.log.segments.offset_index import OffsetIndex
from ottla_broker.log.segments.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    LogSegment,
    segment_path,
)
from ottla_broker.log.segments.segment_file import OpenFiles
from ottla_broker.log.segments.segment_list import SegmentList
from ottla_broker.log.segments.segment_swap import finish_swaps
from ottla_broker.log.segments.time_index import TimeIndex
from ottla_broker.log.segments.transaction_index import problem_in_transaction_index
from ottla_core.errors import CorruptMessage
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log.loading")


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What is known about a log before its directory is opened.

    Attributes:
        topic_partition: which log it is.
        directory: where it is.
        config: the topic's settings.
        open_files: shared by all logs.
        now_ms: the clock.
        was_clean: the broker stopped cleanly, so nothing needs recovery.
        recovery_point: below this offset everything had been fsynced.
        log_start_offset: from the checkpoint; 0 if unknown.
        producer_expiration_ms: silence after which a producer is forgotten.
        first_dirty_offset: how far the log is compacted, from the checkpoint; None if unknown.
        fsync_failed: what was not fsynced may be lost although it can be read.
        storage_problems: what the disks refuse, shared by all logs.
    """

    topic_partition: TopicPartition
    directory: Path
    config: TopicConfig
    open_files: OpenFiles
    now_ms: int
    was_clean: bool
    recovery_point: int
    log_start_offset: int
    producer_expiration_ms: int
    first_dirty_offset: int | None = None
    fsync_failed: bool = False
    storage_problems: StorageProblems = field(default_factory=StorageProblems)


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """What a log's directory held.

    Attributes:
        lost_from: from where on the disk has lost records; None if it has not.
        may_have_gap: whether a disk that loses what was not fsynced may have left a gap that recovery cannot see.
    """

    segments: SegmentList
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epochs: LeaderEpochs
    producers: ProducerStates
    lost_from: int | None = None
    may_have_gap: bool = False


@dataclass(slots=True)
class _Row:
    """The segments that were found.

    Attributes:
        found: in order; the first `unchecked_count` went through no recovery.
        log_end_offset: where the last one ends.
        epoch_runs: the leader epochs of batches that were recovered.
        recovered: base offsets of the segments that were recovered, and whether each has markers.
    """

    found: list[LogSegment]
    log_end_offset: int
    epoch_runs: tuple[EpochRun, ...] = ()
    recovered: dict[int, bool] = field(default_factory=dict)
    unchecked_count: int = 0

    @property
    def segments(self) -> SegmentList:
        return SegmentList(self.found)

    @property
    def unchecked(self) -> list[LogSegment]:
        return self.found[: self.unchecked_count]

    def latest_unchecked_epoch(self) -> int:
        """Return the leader epoch of the last batch that went through no recovery, or -1."""
        for segment in reversed(self.unchecked):
            if (header := segment.last_header()) is not None:
                return header.leader_epoch
        return UNDEFINED_EPOCH


def load_log(request: LoadRequest) -> LoadedLog:
    """Open a partition's directory, recovering what has to be; blocks.

    Raises:
        OSError: the disk failed.
    """
    try:
        return _load_log(request)
    except CorruptMessage as error:
        _logger.error("a log that was taken for sound is damaged; all of it is recovered", problem=str(error))
        return _load_log(replace(request, was_clean=False, recovery_point=0))


def begin_log(request: LoadRequest) -> LoadedLog:
    """Begin a log in a directory that was made for it just now, and hence holds none; blocks and raises OSError."""
    return LoadedLog(
        segments=SegmentList([_create(request, 0)]),
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        leader_epochs=LeaderEpochs(),
        producers=ProducerStates(request.topic_partition),
    )


def _load_log(request: LoadRequest) -> LoadedLog:
    base_offsets = _tidy(request.directory)
    row = _load_segments(request, base_offsets)
    segments, log_end_offset = row.segments, row.log_end_offset
    if not request.was_clean and request.recovery_point > log_end_offset:
        for segment in segments:
            segment.close()
        # It is of a log that was longer. What this one has below it may be newer, and was never checked.
        raise CorruptMessage(
            f"{request.directory} ends at {log_end_offset}, before its recovery point {request.recovery_point}"
        )
    _rebuild_transaction_indexes(request, row)
    epochs = _load_epochs(request.directory, row)
    log_start_offset = max(request.log_start_offset, segments[0].base_offset)
    if log_start_offset > log_end_offset:
        segments = _start_anew(request, segments, log_start_offset, log_end_offset)
        log_end_offset = log_start_offset
    # Before, a log that retention had emptied had the epoch of its last record at its end. Only after a clean stop is
    # that sure; else it may be one that was cut off.
    knows_last_epoch = request.was_clean and log_start_offset == log_end_offset > 0
    epochs.truncate_from_end(log_end_offset + knows_last_epoch)
    epochs.truncate_from_start(log_start_offset, log_end_offset)
    producers = load_producers(request.topic_partition, request.directory, segments, log_end_offset=log_end_offset)
    producers.expire(request.now_ms, request.producer_expiration_ms)
    for segment in segments:
        segment.close()  # an idle partition needs no descriptor
    return LoadedLog(
        segments,
        log_start_offset,
        log_end_offset,
        log_end_offset if request.was_clean else min(request.recovery_point, log_end_offset),
        epochs,
        producers,
        read_lost_from(request.directory),
        may_have_gap=_may_have_gap(request, segments),
    )


def _rebuild_transaction_indexes(request: LoadRequest, row: _Row) -> None:
    """Make the transaction indexes of recovered segments anew; in most logs there are none."""
    if any(row.recovered.values()):
        rebuild_transaction_indexes(
            request.topic_partition,
            request.directory,
            row.segments,
            row.recovered,
            log_end_offset=row.log_end_offset,
        )
        return
    for segment in row.found:
        if segment.base_offset in row.recovered and segment.transaction_index.has_file:
            segment.replace_transaction_index(())


def _may_have_gap(request: LoadRequest, segments: SegmentList) -> bool:
    """Return whether records before the last segment may be lost without a trace that recovery finds.

    What a file loses it loses in place: as damage, or as an end that lies before the next segment's beginning. Only
    compaction leaves such ends as well, so they count for nothing where the topic asks for it; they all count where
    it did once, or where the log follows a source that has gaps. Segments that are gone from the log's beginning look
    like deleted ones. And after a failed fsync what is read may be the kernel's alone.
    """
    if request.was_clean or request.recovery_point >= segments.active.base_offset:
        return False
    begins_late = segments[0].base_offset > max(request.recovery_point, request.log_start_offset)
    return request.fsync_failed or begins_late or _ends_early_by_compaction(request)


def _tidy(directory: Path) -> list[int]:
    """Clear up what an interrupted swap, deletion or write left; return the segments' base offsets, ascending."""
    finish_swaps(directory)
    base_offsets = set()
    indexes = []
    for path in directory.iterdir():
        if path.suffix in {DELETED_SUFFIX, TEMPORARY_SUFFIX}:
            path.unlink()
        elif path.suffix == LOG_SUFFIX and path.stem.isdigit():
            base_offsets.add(int(path.stem))
        elif path.suffix in SEGMENT_SUFFIXES and path.stem.isdigit():
            indexes.append(path)
    for path in indexes:
        if int(path.stem) not in base_offsets:
            _logger.warning("removed an index without its segment", file=str(path))
            path.unlink()
    return sorted(base_offsets)


def _load_epochs(directory: Path, row: _Row) -> LeaderEpochs:
    """Return the epochs of the file, as far as the batches agree; all are read from batches if it lacks some."""
    try:
        epochs = read_leader_epochs(directory)
    except CorruptMessage as error:
        _logger.warning("leader epochs are unreadable", problem=str(error))
        epochs = LeaderEpochs()
    if epochs.latest < (latest := row.latest_unchecked_epoch()):
        _logger.warning(
            "leader epochs are missing, and read from the log's batches",
            directory=str(directory), latest_known=epochs.latest, latest_found=latest,
        )  # fmt: skip
        epochs.agree_with(runs_in(row.unchecked))
    epochs.agree_with(row.epoch_runs)
    return epochs


def _start_anew(request: LoadRequest, former: SegmentList, log_start_offset: int, log_end_offset: int) -> SegmentList:
    """Return an empty log at its start offset, where its files end before that.

    A disk that has lost the log's end leaves it so, but so does a log start offset that is wrong: nothing is deleted.
    """
    kept = [
        path.rename(free_corrupt_path(path.with_name(path.stem)))
        for segment in former
        for path in segment.mark_deleted()
        if path.name.endswith(LOG_SUFFIX + DELETED_SUFFIX) and segment.size_bytes
    ]
    _logger.error(
        "the log ends before its log start offset; it starts anew from there, and its files are kept",
        partition=str(request.topic_partition), log_end_offset=log_end_offset, log_start_offset=log_start_offset,
        kept_as=[str(path) for path in kept],
    )  # fmt: skip
    return SegmentList([_create(request, log_start_offset)])


def _create(request: LoadRequest, base_offset: int) -> LogSegment:
    return LogSegment.create(request.directory, base_offset, open_files=request.open_files, created_ms=request.now_ms)


def _load_segments(request: LoadRequest, base_offsets: list[int]) -> _Row:
    if not base_offsets:
        return _Row([_create(request, request.log_start_offset)], request.log_start_offset)
    row = _Row([], 0)
    for base_offset, end_offset in zip(base_offsets, [*base_offsets[1:], None], strict=True):
        is_beyond_recovery_point = end_offset is None or end_offset > request.recovery_point
        needs_recovery = is_beyond_recovery_point and not request.was_clean
        if needs_recovery or not _indexes_are_sane(request, base_offset, end_offset):
            _recover(request, row, base_offset, end_offset)
        segment = _open_segment(request, base_offset)
        if end_offset is None:
            segment = _load_tail(request, segment, row)
        row.found.append(segment)
        if not needs_recovery:
            row.unchecked_count += 1
    return row


def _load_tail(request: LoadRequest, segment: LogSegment, row: _Row) -> LogSegment:
    """Return the last segment, after one more recovery if end and indexes do not fit; and note the log's end."""
    base_offset = segment.base_offset
    row.log_end_offset, valid_end = segment.load_tail()
    if valid_end != segment.size_bytes or not _indexes_are_sane(request, base_offset, row.log_end_offset):
        segment.close()
        _recover(request, row, base_offset, None)
        segment = _open_segment(request, base_offset)
        row.log_end_offset, _ = segment.load_tail()
    return segment


def _open_segment(request: LoadRequest, base_offset: int) -> LogSegment:
    size = segment_path(request.directory, base_offset, LOG_SUFFIX).stat().st_size
    return LogSegment(
        request.directory,
        base_offset,
        size_bytes=size,
        open_files=request.open_files,
        created_ms=request.now_ms,
    )


def _recover(request: LoadRequest, row: _Row, base_offset: int, end_offset: int | None) -> None:
    """Recover a segment, and note which leader epochs its batches are of."""
    recovery = recover_segment(request.directory, base_offset, end_offset, request.config.index_interval_bytes)
    ends_early = end_offset is not None and recovery.next_offset < end_offset
    if ends_early and not recovery.damage and not _may_have_gaps(request, end_offset):
        # A power failure may have taken the end of it, or all of its bytes, before they were fsynced.
        _logger.error(
            "records are lost: a segment ends before the next one begins",
            directory=str(request.directory), segment=base_offset, lost_from=recovery.next_offset, end=end_offset,
        )  # fmt: skip
        note_lost_from(request.directory, recovery.next_offset)
    row.epoch_runs += recovery.epochs
    row.recovered[base_offset] = recovery.has_markers


def _may_have_gaps(request: LoadRequest, end_offset: int | None) -> bool:
    """Return whether a segment may end before the next one begins: after compaction, or below the log's start."""
    return _ends_early_by_compaction(request) or (end_offset or 0) <= request.log_start_offset


def _ends_early_by_compaction(request: LoadRequest) -> bool:
    return "compact" in request.config.cleanup_policy


def _indexes_are_sane(request: LoadRequest, base_offset: int, end_offset: int | None) -> bool:
    """Return whether all indexes can be right; an `end_offset` of None means that it is not known yet."""
    size = segment_path(request.directory, base_offset, LOG_SUFFIX).stat().st_size
    relative_end = INT32_MAX + 1 if end_offset is None else end_offset - base_offset
    offset_path = segment_path(request.directory, base_offset, INDEX_SUFFIX)
    time_path = segment_path(request.directory, base_offset, TIME_INDEX_SUFFIX)
    try:
        problem = _partial_entry(OffsetIndex, offset_path) or _partial_entry(TimeIndex, time_path)
        if not problem:
            offset_entry = OffsetIndex.open(offset_path, base_offset).last_entry()
            time_entry = TimeIndex.open(time_path, base_offset).last_entry()
            if offset_entry and not (0 <= offset_entry[0] < relative_end and 0 < offset_entry[1] < size):
                problem = f"{offset_path.name} ends with {offset_entry}, the segment has {size} bytes"
            elif time_entry and not (0 <= time_entry[1] < relative_end and time_entry[0] >= 0 and size):
                problem = f"{time_path.name} ends with {time_entry}, the segment has {size} bytes"
            else:
                problem = problem_in_transaction_index(
                    segment_path(request.directory, base_offset, TRANSACTION_INDEX_SUFFIX),
                    base_offset,
                    base_offset + relative_end,
                )
    except FileNotFoundError as error:
        problem = f"{error.filename} is missing"
    if problem:
        _logger.warning("rebuilding the indexes of a segment", directory=str(request.directory), problem=problem)
    return not problem


def _partial_entry(kind: type[IndexFile], path: Path) -> str:
    size = path.stat().st_size
    return f"{path.name} has {size} bytes, no multiple of {kind.ENTRY.size}" if size % kind.ENTRY.size else ""
