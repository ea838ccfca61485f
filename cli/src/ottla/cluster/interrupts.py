"""Ctrl-C as a wish that is counted, for work that must not stop in the middle of a step.

The first one asks for an orderly end, the second for an end at once; the third interrupts whatever runs.
"""

import signal
import time
from types import FrameType
from typing import Self

SLICE_S = 0.1
NOW = 3


class Interrupts:
    """While it is entered, SIGINT and SIGTERM are counted.

    Attributes:
        count: how many came.
    """

    def __init__(self) -> None:
        self.count = 0
        self._handlers: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for received in (signal.SIGINT, signal.SIGTERM):
            self._handlers[received] = signal.signal(received, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for received, handler in self._handlers.items():
            signal.signal(received, handler)  # type: ignore[arg-type] # what signal() itself returned

    def wait(self, duration_s: float) -> None:
        """Sleep, but not on after an interrupt."""
        count, end = self.count, time.monotonic() + duration_s
        while self.count == count and (remaining := end - time.monotonic()) > 0:
            time.sleep(min(SLICE_S, remaining))

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count >= NOW:
            raise KeyboardInterrupt
