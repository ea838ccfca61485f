"""The time index (`.timeindex`): up to which offset no record has a larger timestamp.

Each entry is 12 bytes: the largest timestamp in the segment so far, and the last offset of the batch it was
found in, relative to the segment's base offset. An entry is added along with one of the offset index, and a
last one when the segment becomes inactive, so that the last entry tells the segment's largest timestamp.
Source: Kafka's TimeIndex.
"""

import struct
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Self

from ottla_broker.log.segments.index_file import IndexFile


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds and the offset that goes with it."""

    timestamp: int
    offset: int


NO_TIMESTAMP: Final = -1


class TimeIndex(IndexFile):
    """Maps timestamps to offsets, sparsely."""

    ENTRY: ClassVar[struct.Struct] = struct.Struct(">qi")
    __slots__ = ("_last_offset", "_last_timestamp")

    def __init__(self, path: Path, base_offset: int, written_count: int) -> None:
        super().__init__(path, base_offset, written_count)
        self._note_last()

    @classmethod
    def open(cls, path: Path, base_offset: int) -> Self:
        """Return the index of an existing file; raises OSError."""
        return cls(path, base_offset, path.stat().st_size // cls.ENTRY.size)

    def _note_last(self) -> None:
        entry = self.last_entry()
        self._last_timestamp = entry[0] if entry else NO_TIMESTAMP
        self._last_offset = entry[1] if entry else -1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry, if both numbers are larger than those of the newest one."""
        relative = offset - self.base_offset
        if timestamp > self._last_timestamp and relative > self._last_offset:
            self._add((timestamp, relative))
            self._last_timestamp = timestamp
            self._last_offset = relative

    def last(self) -> TimestampOffset:
        """Return the newest entry, or timestamp -1 at the base offset."""
        entry = self.last_entry()
        if entry is None:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(entry[0], self.base_offset + entry[1])

    def last_below(self, offset: int) -> TimestampOffset:
        """Return the last entry whose offset is smaller, or timestamp -1 at the base offset."""
        number = self.last_number_at_most(offset - 1 - self.base_offset, 1)
        if number < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        entry = self.entry(number)
        return TimestampOffset(entry[0], self.base_offset + entry[1])

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry whose timestamp is at most this, or timestamp -1 at the base offset."""
        number = self.last_number_at_most(timestamp, 0)
        if number < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        entry = self.entry(number)
        return TimestampOffset(entry[0], self.base_offset + entry[1])

    def count_below(self, offset: int) -> int:
        """Return how many entries have a smaller offset."""
        return self.last_number_at_most(offset - 1 - self.base_offset, 1) + 1

    def truncate_to_count(self, count: int) -> None:
        """Keep only the first `count` entries."""
        last = self.entry(count - 1) if 0 < count < self.entry_count else None
        is_cut = count < self.entry_count
        super().truncate_to_count(count)
        if is_cut:
            self._last_timestamp, self._last_offset = last or (NO_TIMESTAMP, -1)
