"""The row of a log's segments, found by offset."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from ottla_broker.log.segments.segment import LogSegment


class SegmentList:
    """Segments by ascending base offset; the last one is the active one, which grows."""

    __slots__ = ("_base_offsets", "_segments")

    def __init__(self, segments: Iterable[LogSegment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        assert self._segments, "a log has at least one segment"

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> LogSegment:
        return self._segments[number]

    @property
    def active(self) -> LogSegment:
        """The segment that is appended to."""
        return self._segments[-1]

    def number_for(self, offset: int) -> int:
        """Return the number of the segment that holds `offset`, the first one for smaller offsets."""
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def end_offset(self, number: int) -> int | None:
        """Return the base offset of the segment after this one, or None for the active one."""
        return self._base_offsets[number + 1] if number + 1 < len(self._base_offsets) else None

    def append(self, segment: LogSegment) -> None:
        """Add a new active segment."""
        assert segment.base_offset > self._base_offsets[-1], "a new segment lies after all others"
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def remove_first(self, count: int) -> list[LogSegment]:
        """Take out the oldest segments and return them."""
        assert count < len(self._segments), "the active segment stays"
        removed = self._segments[:count]
        del self._segments[:count], self._base_offsets[:count]
        return removed

    def remove_before_active(self) -> list[LogSegment]:
        """Take out the segment before the active one and return it."""
        removed = [self._segments.pop(-2)]
        del self._base_offsets[-2]
        return removed

    def remove_above(self, offset: int) -> list[LogSegment]:
        """Take out the segments whose base offset is larger than `offset` and return them."""
        keep = max(1, bisect_right(self._base_offsets, offset))
        removed = self._segments[keep:]
        del self._segments[keep:], self._base_offsets[keep:]
        return removed

    def replace(self, count: int, segment: LogSegment) -> None:
        """Put one segment in place of the `count` segments from its base offset on."""
        number = self.number_for(segment.base_offset)
        assert self._base_offsets[number] == segment.base_offset, "a replaced segment begins at the same offset"
        assert number + count < len(self._segments), "the active segment stays"
        self._segments[number : number + count] = [segment]
        self._base_offsets[number : number + count] = [segment.base_offset]

    def replace_all(self, segment: LogSegment) -> None:
        """Put one segment in place of all."""
        self._segments = [segment]
        self._base_offsets = [segment.base_offset]
