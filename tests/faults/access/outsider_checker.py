"""Whether one client could write and read while it had the right, and only then. Pure.

Its right is taken away and given back again and again. A window is the time in which everybody knows: from the moment
at which every broker has acknowledged the change until the next change is asked for. What happens between two windows
may go either way, and so may what is asked for in one window and answered in another.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

WRITE, READ = "write", "read"
DONE, REFUSED = "none", "topic_authorization_failed"
"""Kafka's names of errors, as those that answer a request."""


class Attempt(NamedTuple):
    """One request of the client, and its answer.

    Attributes:
        what: `WRITE` or `READ`.
        number: which of the client's requests it is; a record's value is this number.
        begun_s: before it was sent, by the monotonic clock.
        ended_s: after it was answered or given up.
        outcome: the answer's error, or something else if there was no answer.
    """

    what: str
    number: int
    begun_s: float
    ended_s: float
    outcome: str


class Window(NamedTuple):
    """A time in which every broker knows whether the client has the right."""

    has_right: bool
    from_s: float
    until_s: float

    def contains(self, attempt: Attempt) -> bool:
        """Whether a request was sent and answered in it."""
        return self.from_s <= attempt.begun_s and attempt.ended_s <= self.until_s


def outsider_problems(
    attempts: Sequence[Attempt], windows: Sequence[Window], stored: Collection[int]
) -> Iterator[str]:
    """Everything that is wrong.

    Args:
        attempts: what the client did.
        windows: when everybody knew whether it may.
        stored: the numbers of the records that stand in the log when all is over.
    """
    tried = {(window.has_right, attempt.what) for window, attempt in _within(attempts, windows)}
    for window, attempt in _within(attempts, windows):
        named = f"its {attempt.what} number {attempt.number}"
        since = f"{attempt.begun_s - window.from_s:.3f} s after every broker had acknowledged that it"
        if attempt.outcome == DONE and not window.has_right:
            yield f"outsider: {named} was granted {since} has no right"
        if attempt.outcome == REFUSED and window.has_right:
            yield f"outsider: {named} was refused {since} has the right"
    for attempt in attempts:
        if attempt.what == WRITE and attempt.outcome == REFUSED and attempt.number in stored:
            yield f"outsider: its write number {attempt.number} was refused, and its record stands there"
        if attempt.what == WRITE and attempt.outcome == DONE and attempt.number not in stored:
            yield f"outsider: its write number {attempt.number} was acknowledged, and its record is not there"
    for has_right in (True, False):
        for what in (WRITE, READ):
            if (has_right, what) not in tried:
                yield f"outsider: no {what} was answered while it had {'the' if has_right else 'no'} right"


def count_attempts(attempts: Sequence[Attempt], windows: Sequence[Window]) -> dict[str, int]:
    """How much was tried that says something."""
    within = [(window.has_right, attempt) for window, attempt in _within(attempts, windows)]
    return {
        "with the right": sum(has_right for has_right, _ in within),
        "refused without it": sum(not has_right and each.outcome == REFUSED for has_right, each in within),
    }


def _within(attempts: Sequence[Attempt], windows: Sequence[Window]) -> Iterator[tuple[Window, Attempt]]:
    """The answered attempts that lie in a window, with it."""
    for attempt in attempts:
        for window in windows:
            if window.contains(attempt) and attempt.outcome in (DONE, REFUSED):
                yield window, attempt
