"""How far groups were behind lately, in bounded memory: a point for each look at a group's page. Pure."""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from ottla_console.views.line_chart import LineChart, line_chart
from ottla_console.views.numbers import count_text

POINTS_MAX: Final = 450
SPAN_S: Final = 900.0
INTERVAL_S_MIN: Final = 2.0
GROUPS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class LagPoint:
    """A moment, in seconds since 1970; `seconds` is None where nobody tells."""

    at_s: float
    records: int
    seconds: float | None


class LagHistories:
    """The points of the groups that were looked at; the group that was not for longest makes way."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, deque[LagPoint]] = OrderedDict()

    def note(self, group: str, at_s: float, records: int | None, seconds: float | None) -> None:
        """Add a point, unless the last one was a moment ago or the lag is not known."""
        points = self._groups.setdefault(group, deque(maxlen=POINTS_MAX))
        self._groups.move_to_end(group)
        while len(self._groups) > GROUPS_MAX:
            self._groups.popitem(last=False)
        if records is not None and (not points or at_s - points[-1].at_s >= INTERVAL_S_MIN):
            points.append(LagPoint(at_s, records, seconds))
        while points and at_s - points[0].at_s > SPAN_S:
            points.popleft()

    def charts(self, group: str) -> list[LineChart]:
        """Return the lag of a group in records, and in seconds, over time; none of fewer than two points."""
        points = self._groups.get(group, ())
        timed = [(each.at_s, each.seconds) for each in points if each.seconds is not None]
        found = [
            line_chart(
                "Lag in records",
                [(each.at_s, each.records) for each in points],
                [count_text(each.records) for each in points],
            ),
            line_chart("Lag in seconds", timed, [f"{seconds:.1f} s" for _, seconds in timed]),
        ]
        return [each for each in found if each is not None]
