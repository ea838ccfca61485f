"""What the offset index and the time index share: a file of fixed-size, ascending entries.

New entries wait in memory and are written a block at a time, because an index only helps reading: after a
crash every segment beyond the recovery point is scanned and its indexes rebuilt, and the recovery point moves
only after the entries are on disk. Entries on disk are never all loaded. A lookup narrows the range with a few
8-byte reads, then keeps the block it ended in, since the next lookup is mostly near. The block may be dropped by
another thread at any time (see `OpenFiles`), so it is one tuple that a lookup takes hold of once.
"""

import errno
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

PENDING_ENTRIES_MAX: Final = 512
"""Entries that wait in memory before they are written."""

_BLOCK_ENTRIES: Final = 256
"""A lookup keeps up to twice as many entries in memory."""

_NO_BLOCK: Final = (0, b"")

INT32_MAX: Final = 2**31 - 1

Entry = tuple[int, ...]
"""Numbers as stored; those that are searched for ascend from entry to entry."""


class IndexFile:
    """An index file; subclasses give the entries their meaning.

    Attributes:
        path: where the file is.
        base_offset: the segment's base offset, to which offsets in entries are relative.
        entry_count: entries on disk and pending.
    """

    ENTRY: ClassVar[struct.Struct]
    __slots__ = ("_block", "_pending", "_written_count", "base_offset", "entry_count", "path")

    def __init__(self, path: Path, base_offset: int, written_count: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.entry_count = written_count
        self._written_count = written_count
        self._pending = bytearray()
        self._block = _NO_BLOCK

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries."""
        return self.entry_count * self.ENTRY.size

    def _add(self, entry: Entry) -> None:
        self._pending += self.ENTRY.pack(*entry)
        self.entry_count += 1
        if self.entry_count - self._written_count >= PENDING_ENTRIES_MAX:
            # A full disk must not fail the append that led here: the entries wait for the next occasion.
            with suppress(OSError):
                self.write_pending()

    def write_pending(self) -> None:
        """Write the waiting entries to the file; raises OSError, and then they go on waiting."""
        if not self._pending:
            return
        position = self._written_count * self.ENTRY.size
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            written = os.pwrite(descriptor, self._pending, position)
            if written != len(self._pending):
                os.ftruncate(descriptor, position)
                raise OSError(errno.ENOSPC, f"only {written} of {len(self._pending)} bytes written", str(self.path))
        finally:
            os.close(descriptor)
        self._written_count = self.entry_count
        self._pending.clear()
        self._block = _NO_BLOCK

    def release(self) -> None:
        """Give up the cached block; pending entries stay."""
        self._block = _NO_BLOCK

    def entry(self, number: int) -> Entry:
        """Return one entry by its number."""
        assert 0 <= number < self.entry_count
        if number >= self._written_count:
            return self._unpack(self._pending, number - self._written_count)
        start, block = self._block
        if 0 <= (number - start) * self.ENTRY.size < len(block):
            return self._unpack(block, number - start)
        return self._unpack(self._read(number, 1), 0)

    def _unpack(self, entries: bytes | bytearray, number: int) -> Entry:
        return self.ENTRY.unpack_from(entries, number * self.ENTRY.size)

    def last_entry(self) -> Entry | None:
        """Return the newest entry as stored, or None."""
        return self.entry(self.entry_count - 1) if self.entry_count else None

    def entries(self) -> Iterator[Entry]:
        """Return all entries as stored."""
        written = self._read(0, self._written_count) if self._written_count else b""
        return (self._unpack(written + self._pending, number) for number in range(self.entry_count))

    def raw_entries(self, start: int, count: int) -> bytes:
        """Return the bytes of up to so many entries from a number on, of at least one if there is any."""
        if start >= self._written_count:
            size = self.ENTRY.size
            first = (start - self._written_count) * size
            return bytes(self._pending[first : first + count * size])
        return self._read(start, min(count, self._written_count - start))

    def last_number_at_most(self, value: int, column: int) -> int:
        """Return the number of the last entry whose column is at most `value`, or -1."""
        pending = self._pending
        if pending and self._unpack(pending, 0)[column] <= value:
            return self._written_count + self._search(pending, value, column)
        if not self._written_count:
            return -1
        start, block = self._block
        if not block or not self._decides(start, block, value, column):
            start, block = self._block = self._read_block_for(value, column)
        return start + self._search(block, value, column)

    def _search(self, entries: bytes | bytearray, value: int, column: int) -> int:
        unpack_from, size = self.ENTRY.unpack_from, self.ENTRY.size
        return (
            bisect_right(
                range(len(entries) // size), value, key=lambda number: unpack_from(entries, number * size)[column]
            )
            - 1
        )

    def _decides(self, start: int, block: bytes, value: int, column: int) -> bool:
        """Return whether the answer to a lookup lies within a block of entries from number `start`."""
        count = len(block) // self.ENTRY.size
        return (start == 0 or self._unpack(block, 0)[column] <= value) and (
            start + count == self._written_count or value < self._unpack(block, count - 1)[column]
        )

    def _read_block_for(self, value: int, column: int) -> tuple[int, bytes]:
        size = self.ENTRY.size
        low, high = 0, self._written_count
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while high - low > _BLOCK_ENTRIES:
                middle = (low + high) // 2
                if self.ENTRY.unpack(os.pread(descriptor, size, middle * size))[column] <= value:
                    low = middle
                else:
                    high = middle
            # Reach a little beyond, so that lookups which follow on find their answer here too.
            high = min(self._written_count, low + 2 * _BLOCK_ENTRIES)
            return low, os.pread(descriptor, (high - low) * size, low * size)
        finally:
            os.close(descriptor)

    def _read(self, start: int, count: int) -> bytes:
        size = self.ENTRY.size
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, count * size, start * size)
        finally:
            os.close(descriptor)

    def truncate_to_count(self, count: int) -> None:
        """Keep only the first `count` entries."""
        if count >= self.entry_count:
            return
        if count < self._written_count:
            os.truncate(self.path, count * self.ENTRY.size)
            self._written_count = count
            self._pending.clear()
        else:
            del self._pending[(count - self._written_count) * self.ENTRY.size :]
        self.entry_count = count
        self._block = _NO_BLOCK
