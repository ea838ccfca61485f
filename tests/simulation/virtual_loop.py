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
from contextvars import Context, copy_context
from typing import Any, Self, TypeVarTuple

from tests.simulation.process import Process
from tests.simulation.schedule import Event, NeverEnding

Args = TypeVarTuple("Args")

CANCELLATIONS_MAX = 10
CALLBACKS_AT_ONCE_MAX = 100_000
"""Of one event; the busiest ones have some hundred."""


def _do_nothing() -> None:
    """What is run for what comes after it."""


class _Callback(events.Handle):
    """What is due, made without asking for things that are off."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., Any], args: Any, loop: asyncio.AbstractEventLoop, context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False


class _Timer(_Callback):
    """What is due at a time of the loop.

    Attributes:
        event: that of the schedule; None in a life that is over.
    """

    __slots__ = ("_process", "_when", "event")

    def __init__(
        self,
        when: float,
        callback: Callable[..., Any],
        args: Any,
        loop: "VirtualLoop",
        context: Context | None,
    ) -> None:
        super().__init__(callback, args, loop, context)
        self._process = loop.process
        self._when = when
        self.event: Event | None = None

    def when(self) -> float:
        """Return when it is due."""
        return self._when

    def cancel(self) -> None:
        """Have it not happen."""
        super().cancel()
        if self.event is not None:
            self._process.schedule.drop(self.event)


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop of one life.

    Attributes:
        process: whose it is.
        worked_s: how long work has taken that the simulation pretends to have been long.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.worked_s = 0.0
        self._life = process.life
        self._ready: deque[_Callback] = deque()
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_entered = False
        self._is_abandoned = False

    @classmethod
    def of(cls, process: Process) -> Self:
        """Return the loop of a process's present life; it does not have the methods that nothing here calls."""
        return cls(process)

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
        return self.process.monotonic_s()

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> events.Handle:
        """Have something happen at once, behind what is due already."""
        handle = _Callback(callback, args, self, context)
        if not self._is_entered and not self._ready:
            self._after(0.0, _do_nothing)
        self._ready.append(handle)
        return handle

    def _run_ready(self) -> None:
        """Run what is due at once, in order, and what comes of it, until nothing is or the process has ended.

        Raises:
            NeverEnding: something goes on and on without taking time.
        """
        ready, process = self._ready, self.process
        count = 0
        while ready and (self._is_abandoned or (process.is_running and process.life == self._life)):
            count += 1
            if count > CALLBACKS_AT_ONCE_MAX:
                raise NeverEnding(f"seed {process.schedule.seed}: {process.name} does not come to rest")
            self._run(ready.popleft())

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> events.TimerHandle:
        """Have something happen later; `delay` in seconds."""
        timer = _Timer(self.time() + delay, callback, args, self, context)
        timer.event = self._after(max(0.0, delay * 1000), self._run, timer)
        return timer  # type: ignore[return-value]

    def _after(self, delay_ms: float, action: Callable[..., None], *arguments: Any) -> Event | None:
        """Plan something in the life that this loop belongs to."""
        if self.process.life != self._life:
            return None
        return self.process.after(delay_ms, action, *arguments)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> events.TimerHandle:
        """Have something happen at a time of this loop."""
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _run(self, handle: _Callback) -> None:
        """Do what is due. What fails in a life that is over, or that is being cleared up after, is passed over."""
        if handle._cancelled:
            return
        try:
            handle._context.run(handle._callback, *handle._args)
        except BaseException:
            if not self._is_abandoned:
                raise

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
        """Pass over what died with its process."""
