"""A broker whose disk is slow, hangs, fails or lacks descriptors when told to: the real program, its calls wrapped.

`python -m tests.faults.faulty_disk CONTROL MODULE ARGUMENT…` runs a service in which the calls that reach the disk
look at the file CONTROL first: it holds a mode and, for `slow`, how many seconds a call may take at most.
"""

import errno
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.faults.program import main_of

SLOW, BROKEN, NO_DESCRIPTORS = "slow", "broken", "no-descriptors"
UNSYNCED = "unsynced"
"""Writes succeed, and no fsync does."""
STALLED, UNWRITTEN = "stalled", "unwritten"
"""Calls that write or read, or those that write alone, take until the mode is another one."""
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

    def write(self, path_or_descriptor: Any) -> None:
        """Before something is written or synchronized."""
        self._wait_while(STALLED, UNWRITTEN)
        mode = self.mode
        if mode == SLOW and self._chance.random() < SLOW_SHARE:
            time.sleep(self._chance.uniform(0, float(self._words[1])))
        elif mode == BROKEN:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path_or_descriptor)

    def fsync(self, descriptor: Any) -> None:
        """Before something is synchronized."""
        if self.mode == UNSYNCED:
            raise OSError(errno.EIO, os.strerror(errno.EIO), descriptor)
        self.write(descriptor)

    def read(self, _descriptor: Any) -> None:
        """Before something is read."""
        self._wait_while(STALLED)

    def _wait_while(self, *modes: str) -> None:
        while self.mode in modes:
            time.sleep(LOOK_INTERVAL_S)

    def open(self, path: Any) -> None:
        """Before a file is opened."""
        if self.mode == NO_DESCRIPTORS:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)


def wrap(control: Control) -> None:
    """Has the calls that a log makes look at the control first."""
    for name, check in (
        ("pwritev", control.write),
        ("pwrite", control.write),
        ("fsync", control.fsync),
        ("pread", control.read),
        ("preadv", control.read),
        ("open", control.open),
    ):
        setattr(os, name, _checked(getattr(os, name), check))


def _checked(call: Callable[..., Any], check: Callable[[Any], None]) -> Callable[..., Any]:
    def checked(first: Any, *others: Any, **named: Any) -> Any:
        check(first)
        return call(first, *others, **named)

    return checked


def main() -> int:
    control, module, *arguments = sys.argv[1:]
    service_main = main_of(module)
    wrap(Control(control))
    sys.argv = [module, *arguments]
    return service_main()


if __name__ == "__main__":
    sys.exit(main())
