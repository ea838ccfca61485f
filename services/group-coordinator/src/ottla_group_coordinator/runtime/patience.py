"""Noticing that something takes too long, for what is begun and done many times a second.

A timer of the event loop that is set and cancelled each time costs a tenth of a short round, and its entry stays in
the loop's heap until its time has come. Here one timer serves all waits: while it runs, a wait only notes when it is
due, and the timer looks at that when it fires.
"""

import asyncio
from collections.abc import Callable


class Patience:
    """One wait after another.

    Args:
        limit_s: how long a wait may take.
        on_over: called once for a wait that takes longer.
    """

    def __init__(self, limit_s: float, on_over: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._on_over = on_over
        self._due_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Begin to wait."""
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + self._limit_s
        if self._timer is None:
            self._timer = loop.call_at(self._due_s, self._look)

    def end(self) -> None:
        """Wait no longer."""
        self._due_s = None

    def close(self) -> None:
        """Wait for nothing any more."""
        self._due_s = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        if self._due_s is None:
            return
        if self._due_s <= loop.time():
            self._due_s = None
            self._on_over()
        else:
            self._timer = loop.call_at(self._due_s, self._look)
