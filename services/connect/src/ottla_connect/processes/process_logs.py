"""The last log lines of every connector and task, in memory, for REST and `ottla connect logs`. Pure.

They stay when a process ends, so that one can see why. Lines, bytes and the number of connectors and tasks are
bounded; those that have been silent longest go first.
"""

import datetime as dt
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import NamedTuple

LINES_MAX = 1000
CHARACTERS_MAX = 256 * 1024
PROCESSES_MAX = 2000


class _LineOfOutput(NamedTuple):
    time_s: float
    text: str


class LineRing:
    """The last lines of something."""

    def __init__(self, lines_max: int = LINES_MAX, characters_max: int = CHARACTERS_MAX) -> None:
        self._lines_max = lines_max
        self._characters_max = characters_max
        self._lines: deque[_LineOfOutput] = deque()
        self._characters = 0

    def add(self, time_s: float, text: str) -> None:
        """Add a line, written at a time in seconds since the epoch."""
        self._lines.append(_LineOfOutput(time_s, text))
        self._characters += len(text)
        while len(self._lines) > self._lines_max or (
            self._characters > self._characters_max and len(self._lines) > 1
        ):
            self._characters -= len(self._lines.popleft().text)

    def last(self, count: int) -> list[_LineOfOutput]:
        """Return the last lines, at most so many, oldest first."""
        return list(self._lines)[-count:] if count > 0 else []

    def texts(self, count: int) -> list[str]:
        """Return the texts of the last lines, at most so many, oldest first."""
        return [each.text for each in self.last(count)]


class ProcessLogs:
    """The last lines by connector and task."""

    def __init__(self, processes_max: int = PROCESSES_MAX) -> None:
        self._processes_max = processes_max
        self._rings: OrderedDict[tuple[str, int | None], LineRing] = OrderedDict()

    def add(self, connector: str, task: int | None, time_s: float, texts: Iterable[str]) -> None:
        """Add lines of a task, or of a connector's own process if `task` is None."""
        key = (connector, task)
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = LineRing()
            while len(self._rings) > self._processes_max:
                self._rings.popitem(last=False)
        self._rings.move_to_end(key)
        for text in texts:
            ring.add(time_s, text)

    def lines(self, connector: str, task: int | None, count: int) -> list[str]:
        """Return the last lines, at most so many, oldest first, each with its time in UTC."""
        ring = self._rings.get((connector, task))
        return [] if ring is None else [f"{_shown(each.time_s)} {each.text}" for each in ring.last(count)]


def _shown(time_s: float) -> str:
    return dt.datetime.fromtimestamp(time_s, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
