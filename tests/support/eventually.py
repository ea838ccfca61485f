"""Waiting for a condition with a deadline, the only way a test here waits for anything.

`eventually` polls a function until it returns something true and hands that value back. The deadline is there
to end a broken run, never to assert how fast something is.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_INTERVAL_S = 0.02


class NotInTime(AssertionError):
    """The condition did not become true before the deadline."""


def eventually(condition: Callable[[], T | None], what: str, *, within_s: float = 30.0) -> T:
    """Polls `condition` until it is true and returns its value.

    Args:
        condition: called repeatedly; a `ConnectionError` from it counts as "not yet".
        what: what is awaited, for the failure's message.
        within_s: seconds until the wait is given up.

    Raises:
        NotInTime: the deadline passed; the message has the last value or error.
    """
    deadline = time.monotonic() + within_s
    while True:
        last: object
        try:
            value = condition()
            if value:
                return value
            last = value
        except ConnectionError as error:
            last = error
        if time.monotonic() > deadline:
            raise NotInTime(f"after {within_s} s still waiting until {what}; last seen: {last!r}")
        time.sleep(POLL_INTERVAL_S)  # between two looks; the deadline ends them
