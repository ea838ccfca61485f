"""An asyncio event loop in simulated time, so that the real shells of a broker run inside a simulation.

One loop belongs to one life of a process: its timers are events of the process, which wait while that is paused
and are dropped when it is killed. Callbacks that are due at once run in order, as asyncio promises, in that event;
everything else takes the time that the simulation draws for it. Nothing blocks and there are no threads: whoever
needs them is simulated.
"""

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any

from tests.simulation.process import Process
from tests.simulation.schedule import NeverEnding

CANCELLATIONS_MAX = 10
CALLBACKS_AT_ONCE_MAX = 100_000
"""Of one event; the busiest ones have some hundred."""


def _do_nothing() -> None:
    """What is run for what comes after it."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop of one life."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._life = process.life
        self._ready: deque[events.Handle] = deque()
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_entered = False
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
        if not self._is_entered and not self._ready:
            self._after(0.0, _do_nothing)
        self._ready.append(handle)
        return handle

    def _run_ready(self) -> None:
        """Run what is due at once, in order, and what comes of it, until nothing is or the process has ended.

        Raises:
            NeverEnding: something goes on and on without taking time.
        """
        ready, process = self._ready, self._process
        count = 0
        while ready and (self._is_abandoned or (process.is_running and process.life == self._life)):
            count += 1
            if count > CALLBACKS_AT_ONCE_MAX:
                raise NeverEnding(f"seed {process.schedule.seed}: {process.name} does not come to rest")
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

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
        if not handle._cancelled:
            handle._run()

    def run(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call something that needs a running loop, now, and then whatever is due at once."""
        if self._is_entered:
            return callback(*args)
        former = events._get_running_loop()
        events._set_running_loop(self)
        self._is_entered = True
        try:
            result = callback(*args)
            self._run_ready()
        finally:
            self._is_entered = False
            events._set_running_loop(former)
        return result

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
            self.run(_do_nothing)
        self._tasks.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Pass over what died with its process; a callback that fails is a failure of the simulation."""
        if "handle" in context and not self._is_abandoned:
            raise context["exception"]
