"""When a partition's end was where, which makes a time out of an offset. Pure.

A point says when an end was first seen. What was committed is behind since the first point beyond it, so a time is as
exact as the interval at which ends are looked at. Older points are further apart: when there are too many, every
other one of the older half goes. For what is older than the first point the time is a lower bound.
"""

from array import array
from bisect import bisect_right
from typing import Final

POINTS_MAX: Final = 32


class EndHistory:
    """The ends of one partition. Times are monotonic, in seconds."""

    __slots__ = ("_ends", "_times_s")

    def __init__(self) -> None:
        self._times_s = array("d")
        self._ends = array("q")

    @property
    def is_known(self) -> bool:
        """Whether an end was noted."""
        return bool(self._ends)

    def note(self, end: int, now_s: float) -> None:
        """Note the present end; one that has gone back begins another history."""
        ends, times_s = self._ends, self._times_s
        if ends and end == ends[-1]:
            return
        if ends and end < ends[-1]:
            del ends[:], times_s[:]
        ends.append(end)
        times_s.append(now_s)
        if len(ends) > POINTS_MAX:
            del ends[1 : POINTS_MAX // 2 : 2], times_s[1 : POINTS_MAX // 2 : 2]

    def records_behind(self, offset: int) -> int:
        """Return how many offsets there are from one to the end."""
        return max(0, self._ends[-1] - offset) if self._ends else 0

    def seconds_behind(self, offset: int, now_s: float) -> float:
        """Return for how long the record at an offset has been there, as far as this is known; 0 at the end."""
        place = bisect_right(self._ends, offset)
        return 0.0 if place == len(self._ends) else max(0.0, now_s - self._times_s[place])
