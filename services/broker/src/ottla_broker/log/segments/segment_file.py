"""Open segment files: who holds a descriptor, and how many are held.

A `SegmentFile` owns one descriptor and closes it when nobody refers to it any more. A response that is being
sent from a segment refers to it, so the segment may be deleted, or its descriptor given up, in the meantime.
`OpenFiles` bounds how many segments keep their file open: the one that was opened first gives it up first, and
opens it again at its next use.
"""

import os
import sys
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final, Protocol

OPEN_FILES_MAX: Final = 4096
"""Segments that keep their file open; the broker's RLIMIT_NOFILE has to exceed this by its connections."""


class ValidRange:
    """How far the files opened of a segment hold what they did when they were opened.

    Each cut of the segment ends one range and begins the next. A range leads to the one after it, because a later cut
    may be a deeper one: what was handed out two cuts ago may have been written over since.

    Attributes:
        cut_position: where the cut was that ended this range.
        following: the range after that cut.
    """

    __slots__ = ("cut_position", "following")

    def __init__(self) -> None:
        self.cut_position = sys.maxsize
        self.following: ValidRange | None = None

    @property
    def end_position(self) -> int:
        """Where the segment was cut since, at the lowest; other batches may lie behind it by now."""
        end_position = self.cut_position
        following = self.following
        while following is not None:
            end_position = min(end_position, following.cut_position)
            following = following.following
        return end_position

    def cut_at(self, position: int) -> "ValidRange":
        """End here, and return the range of what is opened from now on."""
        self.cut_position = position
        self.following = ValidRange()
        return self.following


class SegmentFile:
    """An open `.log` file; the descriptor lives as long as this object.

    Attributes:
        path: the file's.
        valid: how far it may be read by who was given a part of it before.
    """

    __slots__ = ("_descriptor", "path", "valid")

    def __init__(self, path: Path, valid: ValidRange | None = None) -> None:
        """Open the file for reading and writing; raises OSError."""
        self._descriptor = -1
        self.path = path
        self.valid = valid or ValidRange()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Return the descriptor, for `os.sendfile` and the like."""
        return self._descriptor

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


class FileHolder(Protocol):
    """Something that keeps a `SegmentFile` and can be told to let go of it."""

    def release_file(self) -> None:
        """Forget the file and what was cached beside it."""


class OpenFiles:
    """Bounds how many files are open, in the order of opening. Safe to use from recovery threads."""

    def __init__(self, count_max: int = OPEN_FILES_MAX) -> None:
        self._count_max = count_max
        self._holders: OrderedDict[int, FileHolder] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: FileHolder) -> None:
        """Note that the holder has opened its file; the oldest holder beyond the bound lets go of its own."""
        with self._lock:
            self._holders[id(holder)] = holder
            evicted = self._holders.popitem(last=False)[1] if len(self._holders) > self._count_max else None
        if evicted is not None:
            evicted.release_file()

    def closed(self, holder: FileHolder) -> None:
        """Note that the holder has no file any more."""
        with self._lock:
            self._holders.pop(id(holder), None)
