"""The offset index (`.index`): where in a segment's file the batch of an offset starts.

Each entry is 8 bytes: the last offset of a batch, relative to the segment's base offset, and the position of
that batch's first byte. There is an entry about every `index.interval.bytes`, so a lookup lands at or shortly
before the batch that is wanted. Source: Kafka's OffsetIndex.
"""

import struct
from pathlib import Path
from typing import ClassVar, Self

from ottla_broker.log.segments.index_file import IndexFile


class OffsetIndex(IndexFile):
    """Maps offsets to file positions, sparsely."""

    ENTRY: ClassVar[struct.Struct] = struct.Struct(">ii")
    __slots__ = ()

    @classmethod
    def open(cls, path: Path, base_offset: int) -> Self:
        """Return the index of an existing file; raises OSError."""
        return cls(path, base_offset, path.stat().st_size // cls.ENTRY.size)

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry for the batch that ends with `last_offset` and starts at `position`."""
        self._add((last_offset - self.base_offset, position))

    def last_offset(self) -> int:
        """Return the newest entry's offset, or the base offset of an empty index."""
        entry = self.last_entry()
        return self.base_offset + entry[0] if entry else self.base_offset

    def position_for_offset(self, offset: int) -> int:
        """Return the position of the last indexed batch whose last offset is at most `offset`, or 0."""
        number = self.last_number_at_most(offset - self.base_offset, 0)
        return self.entry(number)[1] if number >= 0 else 0

    def position_at_most(self, position: int) -> int:
        """Return the largest indexed position that is at most `position`, or 0."""
        number = self.last_number_at_most(position, 1)
        return self.entry(number)[1] if number >= 0 else 0

    def count_below(self, offset: int) -> int:
        """Return how many entries are of batches that end before `offset`."""
        return self.last_number_at_most(offset - 1 - self.base_offset, 0) + 1
