"""Reading a log: from an offset to a range of bytes in a file, which the broker sends without looking at it.

Consumers mostly go on where their last read ended, so the positions at which reads ended are remembered; such
a read costs no lookup. Any other one takes an index lookup and a chunk of headers. A read never leaves its
segment, and consists of whole batches.
"""

import os
from collections.abc import Callable
from itertools import islice
from typing import Final

from ottla_broker.log.appends.unpacking import Found, LongSearch, is_long
from ottla_broker.log.segments.log_slice import FileSlice
from ottla_broker.log.segments.segment import LogSegment
from ottla_broker.log.segments.segment_list import SegmentList
from ottla_broker.log.segments.segment_scan import last_boundary
from ottla_core.errors import InvalidRecord, UnsupportedCompressionType
from ottla_core.wire.record_batch import RecordBatchHeader
from ottla_core.wire.records import iterate_records

_REMEMBERED_POSITIONS: Final = 16
"""Readers of one partition whose positions are remembered."""

_BATCHES_LOOKED_AT_MAX: Final = 1_000
"""How far a gap is looked for at a time, on the event loop."""


class LogReader:
    """The lookups of one log. Which offsets may be asked for is checked before.

    Args:
        segments: the log's.
        on_refusal: told what the disk refuses when a piece is sent that was read here.
    """

    __slots__ = ("_end", "_on_refusal", "_positions", "_segments")

    def __init__(self, segments: SegmentList, on_refusal: Callable[[OSError], None]) -> None:
        self._segments = segments
        self._on_refusal = on_refusal
        self._positions: dict[int, tuple[LogSegment, int]] = {}
        self._end: tuple[int, LogSegment, int] | None = None

    def forget(self) -> None:
        """Drop remembered positions; needed when batches or segments are removed."""
        self._positions.clear()
        self._end = None

    def read(
        self, offset: int, *, max_bytes: int, end_offset: int, log_end_offset: int, at_least_one_batch: bool
    ) -> FileSlice | None:
        """Return the batches from the one that holds `offset`, below `end_offset`; None if there are none."""
        start = self._positions.get(offset) or self._locate(offset)
        if start is None:
            return None
        segment, position = start
        limit, next_offset = segment.size_bytes, end_offset
        if end_offset < log_end_offset or segment is not self._segments.active:
            if position >= limit:
                # Remembered at the end of a segment that was the active one then.
                start = self._locate(offset)
                if start is None:
                    return None
                segment, position = start
            limit, next_offset = self._limit(segment, end_offset, log_end_offset)
        available = limit - position
        if available <= 0:
            return None
        if available <= max_bytes:
            self._remember(next_offset, segment, limit)
            return FileSlice(segment.file(), position, available, self._on_refusal)
        size = self._whole_batches(segment, position, max_bytes, at_least_one_batch=at_least_one_batch)
        return FileSlice(segment.file(), position, size, self._on_refusal) if size else None

    def contiguous_end(self, offset: int) -> int:
        """Return up to where the log has every offset from one on, as far as the next read goes; itself in a gap."""
        start = self._locate(offset)
        if start is None:
            return offset
        segment, position = start
        end_offset = offset
        for _, header in islice(segment.walk(position), _BATCHES_LOOKED_AT_MAX):
            if header.base_offset > end_offset:
                break
            end_offset = header.next_offset
        return end_offset

    def _locate(self, offset: int) -> tuple[LogSegment, int] | None:
        number = self._segments.number_for(offset)
        while number < len(self._segments):
            segment = self._segments[number]
            found = segment.find_batch(offset)
            if found is not None:
                self._remember(offset, segment, found[0])
                return segment, found[0]
            number += 1
        return None

    def _limit(self, segment: LogSegment, end_offset: int, log_end_offset: int) -> tuple[int, int]:
        """Return up to which position the segment's batches lie below `end_offset`, and the offset there."""
        following = self._segments.end_offset(self._segments.number_for(segment.base_offset))
        segment_end = log_end_offset if following is None else following
        if end_offset >= segment_end:
            return segment.size_bytes, segment_end
        if self._end is not None and self._end[0] == end_offset and self._end[1] is segment:
            return self._end[2], end_offset
        limit = 0
        if end_offset > segment.base_offset:
            found = segment.find_batch(end_offset)
            limit = segment.size_bytes if found is None else found[0]
        self._end = (end_offset, segment, limit)
        return limit, end_offset

    def _whole_batches(self, segment: LogSegment, position: int, max_bytes: int, *, at_least_one_batch: bool) -> int:
        """Return the size of the batches from `position` that fit, or of the first one if it has to be given."""
        target = position + max_bytes
        start = max(position, segment.offset_index.position_at_most(target))
        boundary, base_offset = last_boundary(segment.file(), start, target, segment.size_bytes)
        if boundary > position:
            if base_offset is not None:
                self._remember(base_offset, segment, boundary)
            return boundary - position
        if not at_least_one_batch:
            return 0
        _, header = next(segment.walk(position))
        self._remember(header.next_offset, segment, position + header.size_bytes)
        return header.size_bytes

    def _remember(self, offset: int, segment: LogSegment, position: int) -> None:
        positions = self._positions
        positions[offset] = (segment, position)
        if len(positions) > _REMEMBERED_POSITIONS:
            del positions[next(iter(positions))]

    # Searching by timestamp

    def first_at_timestamp(self, timestamp: int, log_start_offset: int) -> Found | LongSearch | None:
        """Return offset, timestamp and leader epoch of the first record with at least this timestamp."""
        for segment in self._segments:
            if segment.largest_timestamp().timestamp < timestamp:
                continue
            entry = segment.time_index.lookup(timestamp)
            start = segment.offset_index.position_for_offset(max(entry.offset, log_start_offset))
            for position, header in segment.walk(start):
                if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
                    continue
                found = _first_record(segment, position, header, timestamp, log_start_offset)
                if found is not None:
                    return found
        return None

    def largest_timestamp(self, log_start_offset: int) -> Found | LongSearch | None:
        """Return offset, timestamp and leader epoch of the record with the largest timestamp."""
        segment = max(self._segments, key=lambda candidate: candidate.largest_timestamp().timestamp)
        largest = segment.largest_timestamp()
        if largest.timestamp < 0:
            return None
        found = segment.find_batch(largest.offset)
        if found is None:
            return None
        return _first_record(segment, *found, largest.timestamp, log_start_offset)


def _first_record(
    segment: LogSegment, position: int, header: RecordBatchHeader, timestamp: int, log_start_offset: int
) -> Found | LongSearch | None:
    """Return the first record of one batch that is late enough in both time and offset.

    A batch whose records cannot be read stands for itself: it begins with the base offset, and its largest
    timestamp is in the header.
    """
    batch = os.pread(segment.file().fileno(), header.size_bytes, position)
    if is_long(memoryview(batch), header):
        return LongSearch(batch, header, timestamp, log_start_offset)
    try:
        for record in iterate_records(batch, header):
            if record.timestamp >= timestamp and record.offset >= log_start_offset:
                return record.offset, min(record.timestamp, header.max_timestamp), header.leader_epoch
    except (InvalidRecord, UnsupportedCompressionType):
        return max(header.base_offset, log_start_offset), header.max_timestamp, header.leader_epoch
    return None
