"""Long work on an event loop, in slices between which others run.

A request may name tens of thousands of things, and each of them is worth some microseconds. `in_slices` takes what
a lazy iterable yields and rests whenever `SLICE_SECONDS` are over. Only one of all that rest goes on in each turn of
the loop, so a hundred such requests at once hold up everybody else no longer than one.

What was decided before a rest may be outdated after it, as after any await.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from time import perf_counter
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

SLICE_SECONDS: Final = 0.005
"""How long work goes on before others run: a turn of the loop of that length is not felt, and pays for the rest."""


class _Resting:
    """What rests on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: deque[asyncio.Future[None]] = deque()

    def join(self) -> asyncio.Future[None]:
        """Return a future that is done when it is the caller's turn."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._queue.append(turn)
        if len(self._queue) == 1:
            self._loop.call_soon(self._wake_one)
        return turn

    def _wake_one(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():  # else whoever rested was cancelled
                turn.set_result(None)
                break
        if self._queue:
            self._loop.call_soon(self._wake_one)


_resting: WeakKeyDictionary[asyncio.AbstractEventLoop, _Resting] = WeakKeyDictionary()


async def rest() -> None:
    """Let others run, and return when it is this work's turn again."""
    loop = asyncio.get_running_loop()
    resting = _resting.get(loop)
    if resting is None:
        resting = _resting[loop] = _Resting(loop)
    await resting.join()


class Pace:
    """How far the present slice of some work has come."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = perf_counter() + SLICE_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the slice is over, so that the work shall rest."""
        return perf_counter() > self._end

    async def rest(self) -> None:
        """Rest, and begin another slice."""
        await rest()
        self._end = perf_counter() + SLICE_SECONDS


async def in_slices(items: Iterable[T]) -> tuple[T, ...]:
    """Return what a lazy iterable yields, resting whenever a slice is over."""
    found: list[T] = []
    pace = Pace()
    for item in items:
        found.append(item)
        if pace.is_over:
            await pace.rest()
    return tuple(found)


class Unfinished(Awaitable[T]):
    """A coroutine that has run up to where it had to wait for the first time; await it once."""

    __slots__ = ("_awaited", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._work = work
        self._awaited = awaited

    def wrap(self, wrapping: Callable[[Coroutine[Any, Any, T]], Coroutine[Any, Any, T]]) -> None:
        """Have what is left of the work done through another coroutine; before it is awaited."""
        self._work = wrapping(self._work)

    def __await__(self) -> Generator[Any, Any, T]:
        awaited, work = self._awaited, self._work
        try:
            while True:
                try:
                    sent = yield awaited
                except BaseException as error:  # noqa: BLE001 - what is thrown in (cancellation) is the work's to handle
                    awaited = work.throw(error)
                else:
                    awaited = work.send(sent)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


def started(work: Coroutine[Any, Any, T]) -> T | Unfinished[T]:
    """Run a coroutine up to where it has to wait: return its result, or what is left to be awaited.

    Most requests never have to wait, and need no task then. The coroutine must not ask for its task (as
    `asyncio.timeout` does) before it waits for the first time.
    """
    try:
        awaited = work.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    return Unfinished(work, awaited)
