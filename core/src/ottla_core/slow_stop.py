"""What a process that takes long to stop is waiting for, said again and again in its log.

A stop passes through many parts, and each may wait for a disk, a peer or a thread. Whoever waits for the process sees
nothing of that. A thread looks from outside, because the event loop itself may be held up, or gone already.
"""

import asyncio
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any

import structlog

from ottla_core.background import start_thread

REPORT_INTERVAL_S = 10.0
NAMED_MAX = 20
"""Tasks and threads that one report names."""

log = structlog.get_logger("stop")


def report_slow_stop(
    loop: asyncio.AbstractEventLoop, interval_s: float = REPORT_INTERVAL_S, until: threading.Event | None = None
) -> None:
    """Begin to say every `interval_s` seconds where the process stands; for as long as it is there, by default."""
    ended = until or threading.Event()
    began_s = time.monotonic()

    def report() -> None:
        while not ended.wait(interval_s):
            log.warning(
                "the stop takes long",
                seconds=round(time.monotonic() - began_s),
                tasks=waiting_tasks(loop)[:NAMED_MAX],
                threads=working_threads()[:NAMED_MAX],
            )

    start_thread("report of a slow stop", report)


def waiting_tasks(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Return the tasks of an event loop, each with the functions that it is in, the innermost last."""
    return sorted(f"{task.get_name()} at {_path_of(task.get_coro())}" for task in asyncio.all_tasks(loop))


def working_threads() -> list[str]:
    """Return the threads but the calling one, each with the function that it is in."""
    frames = sys._current_frames()  # noqa: SLF001 - public in all but name, and documented
    found = []
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None and thread is not threading.current_thread():
            found.append(f"{thread.name} at {_shown(frame.f_code, frame.f_lineno)}")
    return sorted(found)


def _path_of(awaited: Any) -> str:
    """Follow what a coroutine awaits down to the innermost one; what is no coroutine, such as a future, ends it."""
    path = []
    while awaited is not None:
        frame: FrameType | None = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is not None:
            path.append(_shown(frame.f_code, frame.f_lineno))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return " > ".join(path)


def _shown(code: CodeType, line: int) -> str:
    file = "/".join(code.co_filename.rsplit("/", 2)[-2:])
    return f"{file}:{line} {code.co_qualname}"
