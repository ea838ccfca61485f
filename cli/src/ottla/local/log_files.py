"""The log files of a local cluster: which there are, their last messages, and what is added to them.

Of each file no more than its end is read, so that logs of any size are shown at once.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from ottla.local.log_lines import LogLine, LogLineParser

TAIL_BYTES_MAX = 8 * 1024 * 1024
READ_BYTES_MAX = 1024 * 1024
FOLLOW_INTERVAL_S = 0.3


def processes_of(logs: Path) -> list[str]:
    """Return the names of the processes that have a log, the supervisor first."""
    names = sorted((file.stem for file in logs.glob("*.log")), key=lambda name: (name != "supervisor", name))
    return list(names)


def is_chosen(process: str, wanted: Sequence[str]) -> bool:
    """Return whether a process is one of those named, by its own name or by its role."""
    return not wanted or process in wanted or process.rpartition("-")[0] in wanted


class LogFile:
    """One file, read from its end on and followed."""

    def __init__(self, logs: Path, process: str) -> None:
        self._path = logs / f"{process}.log"
        self._reader = LogLineParser(process, local_offset)
        self._position = 0
        self._inode = 0
        self._rest = b""

    def last(self) -> list[LogLine]:
        """Return the messages at the file's end; what is added later is for `more`."""
        try:
            size = self._path.stat().st_size
        except OSError:
            return []
        self._position = max(0, size - TAIL_BYTES_MAX)
        is_cut = self._position > 0
        lines = self._read(size - self._position)
        return lines[1:] if is_cut else lines

    def more(self) -> list[LogLine]:
        """Return the messages that were added."""
        return self._read(READ_BYTES_MAX)

    def _read(self, size: int) -> list[LogLine]:
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                if self._inode not in (0, found.st_ino) or found.st_size < self._position:
                    self._position, self._rest = 0, b""  # another file stands there now
                self._inode = found.st_ino
                file.seek(self._position)
                data = file.read(size)
        except OSError:
            return []
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [self._reader.read(line.decode(errors="backslashreplace")) for line in lines if line.strip()]


def merged(batches: Iterable[Sequence[LogLine]]) -> list[LogLine]:
    """Return messages of several processes in the order of time; those of one process keep their order."""
    return sorted((line for batch in batches for line in batch), key=lambda line: line.time)


def followed(files: Sequence[LogFile]) -> Iterator[list[LogLine]]:
    """Yield what is added, for ever."""
    while True:
        lines = merged(file.more() for file in files)
        if lines:
            yield lines
        else:
            time.sleep(FOLLOW_INTERVAL_S)


def local_offset(moment: datetime) -> timedelta:
    """Return how far the local time is ahead of UTC."""
    return moment.replace(tzinfo=None).astimezone().utcoffset() or timedelta()
