"""Work that a log hands away because it blocks: fsync, and removing files.

A log runs on the event loop and must not wait for a disk. It passes a function that touches no state of the
log, and gets its result back on the loop.
"""

from collections.abc import Callable
from typing import Protocol

Work = Callable[[], None]
Failed = Callable[[OSError], None]


class Background(Protocol):
    """Runs blocking work elsewhere."""

    def submit(self, work: Work, *, then: Work, failed: Failed) -> None:
        """Run `work` in a thread; afterwards run `then`, or `failed` with what it raised, on the loop."""

    def submit_later(self, delay_ms: int, work: Work) -> None:
        """Run `work` in a thread after a delay, unless the process ends before; errors are logged."""


class InlineBackground:
    """Runs everything at once in the caller's thread: for offline tools, recovery threads and tests."""

    def submit(self, work: Work, *, then: Work, failed: Failed) -> None:
        """Run `work`, then `then` or `failed`."""
        try:
            work()
        except OSError as error:
            failed(error)
        else:
            then()

    def submit_later(self, delay_ms: int, work: Work) -> None:
        """Run `work` without the delay."""
        work()
