"""Waiting for a condition in an async test, with a deadline; see `eventually` for the synchronous one."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from tests.support.eventually import POLL_INTERVAL_S, NotInTime

T = TypeVar("T")


async def eventually_async(condition: Callable[[], T], what: str, *, within_s: float = 30.0) -> T:
    """Polls `condition`, letting other tasks run, until it is true and returns its value.

    Raises:
        NotInTime: the deadline passed.
    """
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise NotInTime(f"after {within_s} s still waiting until {what}; last seen: {value!r}")
        await asyncio.sleep(POLL_INTERVAL_S)  # between two looks; the deadline ends them
    return value
