"""The files of one partition's log: its row of segments, rolled, deleted, compacted and cut. Kafka's LocalLog.

It knows nothing of leaders, producers or high watermarks; `PartitionLog` decides, this class does. Whatever it
does either happens or raises OSError and leaves the row as it was, but for truncations, which say so.
"""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ottla_broker.log.background import Background
from ottla_broker.log.partition.retention import Deletion, SegmentFacts, decide_deletion
from ottla_broker.log.producers.producer_snapshot import snapshot_path
from ottla_broker.log.segments.index_file import INT32_MAX
from ottla_broker.log.segments.offset_index import OffsetIndex
from ottla_broker.log.segments.segment import DELETED_SUFFIX, LogSegment, SegmentCut
from ottla_broker.log.segments.segment_file import OpenFiles
from ottla_broker.log.segments.segment_list import SegmentList
from ottla_broker.log.segments.segment_swap import carry_out, swap_steps, take_back
from ottla_broker.log.segments.time_index import TimeIndex, TimestampOffset
from ottla_core.topic_config import TopicConfig

_OFFSET_ENTRY_BYTES: Final = OffsetIndex.ENTRY.size
_TIME_ENTRY_BYTES: Final = TimeIndex.ENTRY.size


class LocalLog:
    """The segments of one log and what is done to them.

    Attributes:
        directory: the partition's directory.
        segments: the row of segments.
        config: the topic's settings.
    """

    __slots__ = ("_background", "_is_released", "_open_files", "config", "directory", "segments")

    def __init__(
        self,
        directory: Path,
        segments: SegmentList,
        config: TopicConfig,
        open_files: OpenFiles,
        background: Background,
    ) -> None:
        self.directory = directory
        self.segments = segments
        self.config = config
        self._open_files = open_files
        self._background = background
        self._is_released = False

    # Rolling

    def must_roll(self, size: int, last_offset: int, timestamp: int, now_ms: int) -> bool:
        """Return whether a batch of this size, last offset and timestamp needs a new segment."""
        config = self.config
        segment = self.segments.active
        filled = segment.size_bytes
        if filled + size > config.segment_bytes or last_offset - segment.base_offset > INT32_MAX:
            return True
        segment_ms = config.segment_ms
        if "compact" in config.cleanup_policy:  # the active segment is never compacted, so records must get out of it
            segment_ms = min(segment_ms, config.max_compaction_lag_ms)
        return filled > 0 and (
            segment.waited_ms(now_ms, timestamp) > segment_ms - segment.roll_jitter_ms
            or (segment.offset_index.entry_count + 1) * _OFFSET_ENTRY_BYTES > config.segment_index_bytes
            or (segment.time_index.entry_count + 1) * _TIME_ENTRY_BYTES > config.segment_index_bytes
        )

    def may_take_run(self, batch_count: int) -> bool:
        """Return whether the answers of `must_roll` hold for so many batches that are written at once.

        The first batch of a segment has to be written before it is known since when the segment is filling, and each
        batch may add an entry to the indexes.
        """
        segment = self.segments.active
        entries_max = self.config.segment_index_bytes // max(_OFFSET_ENTRY_BYTES, _TIME_ENTRY_BYTES)
        entries = max(segment.offset_index.entry_count, segment.time_index.entry_count)
        return segment.size_bytes > 0 and entries + batch_count <= entries_max

    def roll(self, base_offset: int, now_ms: int, *, goes_at_once: bool = False) -> None:
        """Begin a new active segment at `base_offset`, beyond the present one's.

        The new segment is complete before it takes its place, so an OSError on the way changes nothing.

        Args:
            base_offset: where it begins.
            now_ms: the clock.
            goes_at_once: whether the present one is about to be deleted, so that its indexes need not be complete.
        """
        full = self.segments.active
        try:
            full.become_inactive()
        except OSError:
            if not goes_at_once:
                raise
        self.segments.append(self.create_segment(base_offset, now_ms))
        if full.size_bytes == 0:
            self.unlink_later(self.segments.remove_before_active())

    def create_segment(self, base_offset: int, now_ms: int) -> LogSegment:
        """Return a new, empty segment that is not in the row yet; raises OSError."""
        jitter_bound = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return LogSegment.create(
            self.directory,
            base_offset,
            open_files=self._open_files,
            created_ms=now_ms,
            roll_jitter_ms=random.randrange(jitter_bound) if jitter_bound > 0 else 0,  # noqa: S311 no secret
        )

    # Deleting

    def decide_deletion(
        self, log_start_offset: int, log_end_offset: int, high_watermark: int, now_ms: int
    ) -> Deletion | None:
        """Return what retention deletes next, or None; raises OSError."""
        return decide_deletion(
            self._retention_facts(log_end_offset),
            self.config,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )

    def _retention_facts(self, log_end_offset: int) -> list[SegmentFacts]:
        facts = []
        for number, segment in enumerate(self.segments):
            end_offset = self.segments.end_offset(number)
            facts.append(
                SegmentFacts(
                    end_offset=log_end_offset if end_offset is None else end_offset,
                    size_bytes=segment.size_bytes,
                    timestamp_ms=segment.retention_timestamp_ms(),
                    is_active=end_offset is None,
                )
            )
        return facts

    def delete_oldest(self, count: int) -> list[LogSegment]:
        """Take the oldest segments out of the row, and remove their files later.

        Raises:
            OSError: those before the one that the disk refused to rename are out of the row.
        """
        removed: list[LogSegment] = []
        for segment in list(self.segments)[:count]:
            self.unlink_later([segment])
            removed += self.segments.remove_first(1)
        return removed

    def unlink_later(self, segments: Iterable[LogSegment]) -> None:
        """Rename the files of removed segments now, and unlink them after `file.delete.delay.ms`."""
        paths: list[Path] = []
        for segment in segments:
            paths += segment.mark_deleted()
            paths.append(snapshot_path(self.directory, segment.base_offset))
        self._unlink_later(paths)

    def _unlink_later(self, paths: Sequence[Path]) -> None:
        directory = self.directory

        def unlink() -> None:
            if self._is_released or self.directory != directory:
                return  # the directory is another log's by now, or soon
            for path in paths:
                path.unlink(missing_ok=True)

        self._background.submit_later(self.config.file_delete_delay_ms, unlink)

    # Compacting

    def replace(self, replaced: Sequence[LogSegment], size_bytes: int, now_ms: int) -> None:
        """Put the cleaned segment that waits beside some neighbours in their place.

        A power failure may undo that until the directory is fsynced.

        Args:
            replaced: the segments it was made from; it has the first one's base offset.
            size_bytes: its size.
            now_ms: the clock.

        Raises:
            SwapInterrupted: files and row differ until the next start.
            OSError: the disk refuses; nothing has changed.
        """
        first, *others = replaced
        steps = swap_steps(self.directory, first.base_offset, [segment.base_offset for segment in replaced])
        carry_out(steps)
        try:
            cleaned = LogSegment(
                self.directory,
                first.base_offset,
                size_bytes=size_bytes,
                open_files=self._open_files,
                created_ms=now_ms,
            )
        except OSError as error:  # its indexes cannot be opened; else the log would look for files that are gone
            take_back(steps, error)
            raise
        self.segments.replace(len(replaced), cleaned)
        for segment in replaced:
            segment.retire()
        paths = [target for _, target in steps if target.suffix == DELETED_SUFFIX]
        paths += [snapshot_path(self.directory, segment.base_offset) for segment in others]
        self._unlink_later(paths)

    # Truncating

    def plan_cut(self, offset: int, largest: TimestampOffset | None) -> SegmentCut:
        """Find out how the segment that an offset lies in is to be cut; raises OSError.

        Args:
            offset: where to cut.
            largest: the largest timestamp that the segment has below, if that is known already.
        """
        return self.segments[self.segments.number_for(offset)].plan_cut(offset, largest)

    def truncate_to(self, offset: int, planned: SegmentCut) -> None:
        """Remove all batches that reach `offset` or beyond, which is in the row's range.

        The last segment goes first: a crash on the way must not leave a log with a hole.

        Raises:
            OSError: files and row differ now.
        """
        for segment in reversed(self.segments.remove_above(offset)):
            for path in segment.mark_deleted():
                path.unlink()
        self.segments.active.cut(planned)

    def start_anew_at(self, offset: int, now_ms: int) -> None:
        """Remove all segments and begin an empty one at `offset`.

        Raises:
            OSError: segments of the row may be gone; it can be done again.
        """
        for segment in self.segments:
            for path in segment.mark_deleted():
                path.unlink()
        self.segments.replace_all(self.create_segment(offset, now_ms))

    # Moving

    def relocate(self, directory: Path) -> None:
        """Go on with the same files in another directory, where somebody has put them."""
        self.directory = directory
        for segment in self.segments:
            segment.relocate(directory)

    def release(self) -> None:
        """Let go of all files for good."""
        self._is_released = True
        for segment in self.segments:
            segment.retire()


def first_offset_for(base_offset: int, last_offset: int, log_end_offset: int) -> int:
    """Return where a segment begins that is to hold a batch behind the log's end.

    That is at the end, also if the batch begins behind a gap, so that the log is as before if the batch cannot be
    written. A gap that is too wide for the offsets of an index stays outside of the segment.
    """
    return log_end_offset if last_offset - log_end_offset <= INT32_MAX else base_offset
