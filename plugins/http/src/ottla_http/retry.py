"""When to try again. Pure: the time and the dice are arguments."""

import datetime as dt
import email.utils
from collections.abc import Callable

_DOUBLINGS_MAX = 30


def backoff_ms(failures: int, *, first_ms: int, max_ms: int, chance: float) -> int:
    """Return how long to wait after so many failures in a row: twice as long each time, shortened by up to a fifth.

    Args:
        failures: 1 for the first.
        first_ms: how long after the first one.
        max_ms: how long at most.
        chance: a random number from 0 to 1, so that many clients do not come again at once.
    """
    assert failures > 0, "without a failure there is nothing to wait for"
    longest_ms = min(first_ms << min(failures - 1, _DOUBLINGS_MAX), max_ms)
    return round(longest_ms * (1 - chance / 5))


def retry_after_ms(value: str | None, now: Callable[[], dt.datetime]) -> int | None:
    """Return how long a server asks to wait by the header `Retry-After`; None if it does not, or not intelligibly.

    Args:
        value: the header: seconds, or a date.
        now: tells the present time, in UTC.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdecimal():
        return int(text[:9]) * 1000
    try:
        until = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = until if until.tzinfo is not None else until.replace(tzinfo=dt.UTC)
    return max(0, round((aware - now()).total_seconds() * 1000))
