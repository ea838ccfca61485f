"""`Background` on an event loop: a few threads for what blocks, and timers for what waits."""

import asyncio
import errno
from concurrent.futures import Executor
from functools import partial
from typing import Final

import structlog

from ottla_broker.log.background import Failed, Work
from ottla_core.background import note_failure

_logger: Final = structlog.get_logger("log.background")


class ThreadedBackground:
    """Runs work in an executor and reports on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._loop = loop
        self._executor = executor
        self._running: set[asyncio.Future[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()

    def submit(self, work: Work, *, then: Work, failed: Failed) -> None:
        """Run `work` in a thread; afterwards run `then`, or `failed` if it raised OSError, on the loop.

        What it raises unexpectedly is told as an OSError, too, or those who wait for the work would do so for ever.
        """
        running = self._loop.run_in_executor(self._executor, work)
        self._running.add(running)
        running.add_done_callback(partial(self._ended, then, failed))

    def _ended(self, then: Work, failed: Failed, running: asyncio.Future[None]) -> None:
        self._running.discard(running)
        if running.cancelled():
            return
        error = running.exception()
        if error is None:
            then()
        elif isinstance(error, OSError):
            failed(error)
        else:
            note_failure("background work of a log", error)
            failed(OSError(errno.EIO, f"it failed unexpectedly: {error!r}"))

    def submit_later(self, delay_ms: int, work: Work) -> None:
        """Run `work` in a thread after a delay, unless the process ends before; errors are logged."""
        timer: asyncio.TimerHandle

        def start() -> None:
            self._timers.discard(timer)
            self.submit(work, then=_nothing, failed=_log_failure)

        timer = self._loop.call_later(delay_ms / 1000, start)
        self._timers.add(timer)

    async def close(self) -> None:
        """Wait for running work, and drop what is only due later."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        while self._running:
            await asyncio.wait(self._running)
            await asyncio.sleep(0)  # lets the callbacks run, which may submit more


def _nothing() -> None:
    """Nobody waits for the end of this work."""


def _log_failure(error: OSError) -> None:
    _logger.warning("background work failed", problem=str(error))
