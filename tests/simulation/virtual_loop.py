"""An asyncio event loop in simulated time, so that the real shells of a broker run inside a simulation.

One loop belongs to one life of a process: its callbacks are events of the process, which wait while that is paused
and are dropped when it is killed. Callbacks that are due at once run in order, as asyncio promises; everything else
takes the time that the simulation draws for it. Nothing blocks and there are no threads: whoever needs them is
simulated.
"""

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any

from tests.simulation.process import Process

CANCELLATIONS_MAX = 10


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop of one life."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._life = process.life
        self._ready: deque[events.Handle] = deque()
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_abandoned = False

    def get_debug(self) -> bool:
        """Return False."""
        return False

    def is_running(self) -> bool:
        """Return True: it runs for as long as its process."""
        return True

    def is_closed(self) -> bool:
        """Return False."""
        return False

    def time(self) -> float:
        """Return what the process's clock shows, in seconds."""
        return self._process.now_ms() / 1000

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> events.Handle:
        """Have something happen at once, behind what is due already."""
        handle = events.Handle(callback, args, self, context)
        if not self._ready:
            self._after(0.0, self._turn)
        self._ready.append(handle)
        return handle

    def _turn(self) -> None:
        """Run what is due at once, in order; what comes of it is due in the next turn."""
        former = events._get_running_loop()
        events._set_running_loop(self)
        ready = self._ready
        try:
            for _ in range(len(ready)):
                handle = ready[0]  # stays until it is done, so that what it adds does not begin another turn
                if not handle._cancelled:
                    handle._run()
                ready.popleft()
        finally:
            events._set_running_loop(former)
        if ready and not self._is_abandoned:
            self._after(0.0, self._turn)

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        """Have something happen later; `delay` in seconds."""
        handle = events.TimerHandle(self.time() + delay, callback, args, self, context)
        self._after(max(0.0, delay * 1000), self._run, handle)
        return handle

    def _after(self, delay_ms: float, action: Callable[..., None], *arguments: Any) -> None:
        """Plan something in the life that this loop belongs to."""
        if self._process.life == self._life:
            self._process.after(delay_ms, action, *arguments)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        """Have something happen at a time of this loop."""
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Nothing is to be done: `_run` passes over cancelled ones."""

    def _run(self, handle: events.Handle) -> None:
        if handle.cancelled():
            return
        former = events._get_running_loop()
        events._set_running_loop(self)
        try:
            handle._run()
        finally:
            events._set_running_loop(former)

    def run(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call something that needs a running loop, now."""
        former = events._get_running_loop()
        events._set_running_loop(self)
        try:
            return callback(*args)
        finally:
            events._set_running_loop(former)

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[Any]":
        """Return a task of this loop."""
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def abandon(self) -> None:
        """End whatever this life was doing, so that nothing of it goes on when it is collected."""
        self._is_abandoned = True
        for _ in range(CANCELLATIONS_MAX):  # what clears up may wait for something
            pending = [task for task in self._tasks if not task.done()]
            if not pending:
                break
            for task in pending:
                task.cancel()
            while self._ready:
                self._turn()
        self._tasks.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Pass over what died with its process; a callback that fails is a failure of the simulation."""
        if "handle" in context and not self._is_abandoned:
            raise context["exception"]
