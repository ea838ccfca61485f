"""Which of a task's last log lines are new since one looked before. Pure."""

from collections.abc import Sequence


def new_lines(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Return what was logged meanwhile.

    Both are the last lines at their time, as many as were asked for. The new ones are those behind the longest end of
    `before` with which `now` begins; if there is none, so much was logged that all are new.
    """
    for dropped in range(len(before) + 1):
        kept = list(before[dropped:])
        if list(now[: len(kept)]) == kept:
            return list(now[len(kept) :])
    raise AssertionError("an empty end begins every list")
