"""Blows at random moments, by a seed: which process is hit, and when, and sometimes two at once."""

import random
import threading
import time
from collections.abc import Callable, Mapping

Strikes = dict[str, Callable[[], None]]
"""What kills a process, by its name."""

PAUSE_S = (0.3, 5.0)
REST_S = 16.0
"""A process that was killed is spared so long: `ottla up` gives up what dies six times in a minute."""
SIGN_OF_LIFE_S = 0.2
TWO_AT_ONCE = 0.2


def strike(
    strikes: Mapping[str, Callable[[], None]], chance: random.Random, count: int, look: Callable[[], None]
) -> list[str]:
    """Kill processes that chance chooses, at moments that it chooses.

    Args:
        count: how many in all.
        look: called now and then in between.

    Returns:
        the names of those that were hit, in order.
    """
    struck: list[str] = []
    spared_until_s: dict[str, float] = {}
    while len(struck) < count:
        _pause(chance.uniform(*PAUSE_S), look)
        for _ in range(min(count - len(struck), 2 if chance.random() < TWO_AT_ONCE else 1)):
            rested = [name for name in strikes if spared_until_s.get(name, 0.0) <= time.monotonic()]
            if rested:
                name = chance.choice(rested)
                strikes[name]()
                spared_until_s[name] = time.monotonic() + REST_S
                struck.append(name)
    return struck


def _pause(seconds: float, look: Callable[[], None]) -> None:
    """Let the schedule's time go by."""
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0:
        threading.Event().wait(min(left_s, SIGN_OF_LIFE_S))
        look()
