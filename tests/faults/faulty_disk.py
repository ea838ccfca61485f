"""A broker whose disk is slow, hangs, fails or lacks descriptors when told to: the real program, its calls wrapped.

`python -m tests.faults.faulty_disk CONTROL MODULE ARGUMENT…` runs a service in which the calls that reach the disk
look at the file CONTROL first: it holds a mode and, for `slow`, how many seconds a call may take at most, for
`refused` the name of the error. While fsyncs fail, a file beside it says what they have lost (`synced_files.py`).
"""

import errno
import os
import random
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.program import main_of
from tests.faults.synced_files import SyncedFiles

SLOW, BROKEN, NO_DESCRIPTORS = "slow", "broken", "no-descriptors"
UNSYNCED = "unsynced"
"""Writes succeed, and no fsync does."""
UNREADABLE = "unreadable"
"""Reads fail, and writes and fsyncs succeed."""
STALLED, UNWRITTEN = "stalled", "unwritten"
"""Calls that write or read, or those that write alone, take until the mode is another one."""
REFUSED = "refused"
"""Calls that write, or create a file, fail, some of them after a part; fsyncs and reads succeed."""
PART_SHARE = 0.5
"""Of the refused writes; these have written some bytes before."""
SLOW_SHARE = 0.1
"""Of the calls; the others are as quick as ever."""
LOOK_INTERVAL_S = 0.02
PROGRAM = "tests.faults.faulty_disk"


class Control:
    """What the file says, looked at every now and then."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._chance = random.Random(path)
        self._looked_s = 0.0
        self._words: list[str] = []
        self._open = open

    @property
    def mode(self) -> str:
        """The present mode; empty if all is well."""
        now_s = time.monotonic()
        if now_s - self._looked_s > LOOK_INTERVAL_S:
            self._looked_s = now_s
            try:
                with self._open(self._path) as file:
                    self._words = file.read().split()
            except FileNotFoundError:
                self._words = []
        return self._words[0] if self._words else ""

    def write(self, descriptor: Any) -> None:
        """Before something is written or synchronized."""
        self._wait_while(STALLED, UNWRITTEN)
        mode = self.mode
        if mode == SLOW and self._chance.random() < SLOW_SHARE:
            _sleep(self._chance.uniform(0, float(self._words[1])))
        elif mode == BROKEN:
            raise _refusal("EIO", descriptor)

    def part_to_write(self, descriptor: Any, size_bytes: int) -> int:
        """How many bytes of a write reach the disk; raises OSError if it is refused before the first."""
        self.write(descriptor)
        if self.mode != REFUSED:
            return size_bytes
        part_bytes = size_bytes // 2
        if part_bytes and self._chance.random() < PART_SHARE:
            return part_bytes
        raise _refusal(self._words[1], descriptor)

    def fsync(self, descriptor: Any) -> None:
        """Before something is synchronized."""
        if self.mode == UNSYNCED:
            raise _refusal("EIO", descriptor)
        self.write(descriptor)

    def read(self, descriptor: Any) -> None:
        """Before something is read."""
        self._wait_while(STALLED)
        if self.mode == UNREADABLE:
            raise _refusal("EIO", descriptor)

    def _wait_while(self, *modes: str) -> None:
        while self.mode in modes:
            _sleep(LOOK_INTERVAL_S)

    def open(self, path: Any, flags: int) -> None:
        """Before a file is opened."""
        mode = self.mode
        if mode == NO_DESCRIPTORS:
            raise _refusal("EMFILE", path)
        if mode == REFUSED and flags & os.O_CREAT:
            raise _refusal(self._words[1], path)


def _sleep(seconds: float) -> None:
    """Wait: for as long as a call takes on a slow disk, or until the next look at whether it still stalls.

    `time.sleep` fails with EINVAL where libfaketime has set the clock back, and would be called again at once.
    """
    select.select([], [], [], seconds)


def _refusal(name: str, path_or_descriptor: Any) -> OSError:
    code = getattr(errno, name)
    return OSError(code, os.strerror(code), path_or_descriptor)


def wrap(control: Control, lost: Path) -> None:
    """Has the calls that a log makes look at the control first.

    Args:
        control: what to look at.
        lost: where to note what fsyncs that failed have lost.
    """
    files = SyncedFiles()
    pwritev, pwrite, fsync, ftruncate, open_file = os.pwritev, os.pwrite, os.fsync, os.ftruncate, os.open

    def write_buffers(descriptor: int, buffers: Any, *where: Any) -> int:
        size_bytes = sum(memoryview(each).nbytes for each in buffers)
        part_bytes = control.part_to_write(descriptor, size_bytes)
        files.before_write(descriptor)
        if part_bytes == size_bytes:
            return pwritev(descriptor, buffers, *where)
        return pwrite(descriptor, b"".join(buffers)[:part_bytes], *where)

    def write(descriptor: int, data: Any, offset: int) -> int:
        view = memoryview(data).cast("B")
        part_bytes = control.part_to_write(descriptor, view.nbytes)
        files.before_write(descriptor)
        return pwrite(descriptor, view[:part_bytes], offset)

    def synchronize(fd: Any) -> None:
        try:
            control.fsync(fd)
        except OSError:
            files.note(lost)
            raise
        # What is written while the disk is at work may not be among what it makes durable.
        size_bytes = os.fstat(fd).st_size
        fsync(fd)
        files.synced(fd, size_bytes)

    def truncate(descriptor: int, length: int) -> None:
        ftruncate(descriptor, length)
        files.truncated(descriptor, length)

    def open_checked(path: Any, flags: int, *others: Any, **named: Any) -> int:
        control.open(path, flags)
        return open_file(path, flags, *others, **named)

    os.pwritev, os.pwrite, os.fsync = write_buffers, write, synchronize
    os.ftruncate, os.open = truncate, open_checked
    for name in ("pread", "preadv", "sendfile"):
        setattr(os, name, _checked(getattr(os, name), control.read))


def _checked(call: Callable[..., Any], check: Callable[[Any], None]) -> Callable[..., Any]:
    def checked(first: Any, *others: Any, **named: Any) -> Any:
        check(first)
        return call(first, *others, **named)

    return checked


def lost_note(control: Path) -> Path:
    """Where is noted what failed fsyncs have lost."""
    return control.with_suffix(".lost")


def main() -> int:
    control, module, *arguments = sys.argv[1:]
    service_main = main_of(module)
    wrap(Control(control), lost_note(Path(control)))
    sys.argv = [module, *arguments]
    return service_main()


if __name__ == "__main__":
    sys.exit(main())
