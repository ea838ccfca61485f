"""What runs in the background of a process, and what becomes of it when it fails unexpectedly.

A task that dies is silent: asyncio keeps its exception for somebody who asks, and what it did is simply not done any
more. So services start tasks and threads here and nowhere else (a test walks their sources), each with a fate:

==================  ========================================================  =======================================
`start_vital`       the process ends with a failure                           what it cannot do its work without
`start_recurring`   it is started anew, after a pause that doubles each time  duties that come round again and again
`start_detached`    only what it did is lost                                  one of many pieces of work
`start_awaited`     its starter gets the exception                            what somebody waits for
`start_thread`      only what it did is lost                                  a thread of its own
==================  ========================================================  =======================================

An exception that comes out of any but the fourth is a defect: it is logged with its trace and counted by the task's
kind, which the metrics show. While a recurring task pauses, or once a vital one has failed, the health service says
so (`rpc/server.py`). Failures that a task expects, it deals with itself.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import structlog

from ottla_core.errors import OttlaError

PAUSE_S_MIN = 0.1
PAUSE_S_MAX = 30.0
"""A recurring task that has run for longer than this since it was started is taken to work again."""

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, None]]

log = structlog.get_logger("background")

failures: Counter[str] = Counter()
"""Unexpected exceptions of this process so far, by the kind of task."""


class BackgroundFailed(OttlaError):
    """A task without which the process cannot do its work has failed."""


class Background:
    """What one event loop knows of its tasks.

    Attributes:
        failing: the kinds of recurring tasks that pause after a failure, and of vital ones that have failed.
        listeners: called when `failing` has changed; they must not raise.
    """

    def __init__(self) -> None:
        self.failing: Counter[str] = Counter()
        self.listeners: list[Callable[[], None]] = []
        self.vital_failure: asyncio.Future[BackgroundFailed] = asyncio.get_running_loop().create_future()
        self._kept: set[asyncio.Task[Any]] = set()

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Refer to a task while it runs: the event loop itself does not."""
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    def set_failing(self, kind: str, *, fails: bool) -> None:
        """Note that a task of this kind has failed, or runs again."""
        self.failing[kind] += 1 if fails else -1
        if not self.failing[kind]:
            del self.failing[kind]
        for listener in tuple(self.listeners):
            listener()

    def end_process(self, kind: str, error: BaseException) -> None:
        """Have the process end."""
        self.set_failing(kind, fails=True)
        if not self.vital_failure.done():
            self.vital_failure.set_result(BackgroundFailed(f"the task '{kind}' has failed: {error!r}"))


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Background] = WeakKeyDictionary()


def background() -> Background:
    """Return what the running event loop knows of its tasks."""
    loop = asyncio.get_running_loop()
    known = _of_loops.get(loop)
    if known is None:
        known = _of_loops[loop] = Background()
    return known


def note_failure(kind: str, error: BaseException, **context: object) -> None:
    """Log and count an unexpected exception.

    Args:
        kind: of what; one of a few words, as metrics have a series for each.
        error: it, with its trace.
        context: which one of its kind.
    """
    failures[kind] += 1
    log.error("a background task failed unexpectedly", task=kind, **context, exc_info=error)


def start_vital(kind: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start what the process cannot do its work without; `wait_for_end` raises when it fails."""
    known = background()

    async def run() -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - noticing whatever it is, is what this is for
            note_failure(kind, error, consequence="the process ends")
            known.end_process(kind, error)

    return _start(known, kind, run(), work)


def start_recurring(
    kind: str, work: Work, *, until: asyncio.Event | None = None, **context: object
) -> asyncio.Task[None]:
    """Start what goes on and on; it ends when `work` returns.

    Args:
        kind: what it is.
        work: begins it, again and again.
        until: once this is set it is not started anew, and a pause ends.
        context: which one of its kind, for the log.
    """
    known = background()
    return _start(known, kind, _keep_running(known, kind, work, until or asyncio.Event(), context))


def start_detached(
    kind: str, work: Coroutine[Any, Any, None], *, on_failure: Callable[[], None] | None = None, **context: object
) -> asyncio.Task[None]:
    """Start a piece of work that nobody waits for.

    Args:
        kind: what it is.
        work: it.
        on_failure: called after an unexpected exception, to tell those who would wait for ever.
        context: which one of its kind, for the log.
    """
    known = background()

    async def run() -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - noticing whatever it is, is what this is for
            note_failure(kind, error, **context)
            if on_failure is not None:
                on_failure()

    return _start(known, kind, run(), work)


def start_awaited(kind: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start what the caller awaits, whose exception hence is the caller's."""
    return asyncio.get_running_loop().create_task(work, name=kind)


def ensure_awaited(work: Awaitable[T]) -> asyncio.Future[T]:
    """Return a future of what may be one already; its exception is the caller's."""
    return asyncio.ensure_future(work)


def start_thread(kind: str, work: Callable[[], object], *, name: str = "") -> threading.Thread:
    """Start a thread that ends with the process."""

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - noticing whatever it is, is what this is for
            note_failure(kind, error, thread=name or kind)

    thread = threading.Thread(target=run, name=name or kind, daemon=True)
    thread.start()
    return thread


def _start(
    known: Background, kind: str, running: Coroutine[Any, Any, None], work: Coroutine[Any, Any, None] | None = None
) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(running, name=kind)
    known.keep(task)
    if work is not None:
        task.add_done_callback(lambda _: work.close())  # it has not begun if the task was cancelled at once
    return task


async def _keep_running(
    known: Background, kind: str, work: Work, until: asyncio.Event, context: dict[str, object]
) -> None:
    loop = asyncio.get_running_loop()
    pause_s = PAUSE_S_MIN
    while True:
        began_s = loop.time()
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - noticing whatever it is, is what this is for
            if loop.time() - began_s > PAUSE_S_MAX:
                pause_s = PAUSE_S_MIN
            note_failure(kind, error, **context, consequence=f"starts anew in {pause_s:g} s")
        else:
            return
        known.set_failing(kind, fails=True)
        try:
            async with asyncio.timeout(pause_s):
                await until.wait()
            return
        except TimeoutError:
            pass
        finally:
            known.set_failing(kind, fails=False)
        pause_s = min(2 * pause_s, PAUSE_S_MAX)
