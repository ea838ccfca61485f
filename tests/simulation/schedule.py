"""Simulated time: a queue of events, one source of chance, and the trace of what happened.

Everything that happens in a simulation is an event of this queue, and every decision of chance comes from the one
`random.Random(seed)` here, so a seed determines the whole run. Times are milliseconds.

The trace is kept as templates with arguments, because only a failing run is ever read.
"""

import hashlib
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any

EVENTS_MAX = 200_000
"""Of one run; the busiest ones have some 10,000."""


class NeverEnding(AssertionError):
    """A run does not come to its end."""


Event = list[Any]
"""When something happens, the event's number, what happens, and with what arguments; events compare in that order."""


class Schedule:
    """The events to come and those that have been.

    Attributes:
        now_ms: the true time, which no simulated process knows.
        random: the only source of chance.
        steps: how many events have happened.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now_ms = 0.0
        self.steps = 0
        self._events: list[Event] = []
        self._numbers = count()
        self._trace: list[tuple[float, str, str, tuple[Any, ...]]] = []

    def after(self, delay_ms: float, action: Callable[..., None], *arguments: Any) -> Event:
        """Have something happen later."""
        event = [self.now_ms + delay_ms, next(self._numbers), action, arguments]
        heappush(self._events, event)
        return event

    def drop(self, event: Event) -> None:
        """Have an event not happen, which would have no effect any more; two fifths of all are timeouts like that."""
        event[2], event[3] = None, ()

    def run_until(self, end_ms: float, after_each_step: Callable[[], None]) -> None:
        """Let events happen, one by one, until a time is reached."""
        events = self._events
        while events and events[0][0] <= end_ms:
            self.step()
            after_each_step()
        self.now_ms = end_ms

    @property
    def next_ms(self) -> float:
        """When the next event happens; infinity if there is none."""
        return self._events[0][0] if self._events else inf

    def step(self) -> None:
        """Let the next event happen.

        Raises:
            NeverEnding: there have been too many.
        """
        event = heappop(self._events)
        time_ms, _, action, arguments = event
        event[3] = ()  # whoever holds the event is often one of them, and would be garbage for a collector only
        if action is None:
            return
        self.now_ms = time_ms
        self.steps += 1
        if self.steps > EVENTS_MAX:
            raise NeverEnding(f"{EVENTS_MAX} events have not brought the run to its end")
        action(*arguments)

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.random.random() < probability

    def between(self, low: float, high: float) -> float:
        """Return a number between two."""
        return low + (high - low) * self.random.random()

    def note(self, who: str, template: str, *arguments: Any) -> None:
        """Add a line to the trace; the arguments must be immutable."""
        self._trace.append((self.now_ms, who, template, arguments))

    def trace_lines(self, last: int | None = None) -> list[str]:
        """Return the trace, or its last lines, as text."""
        entries = self._trace if last is None else self._trace[-last:]
        return [f"{now_ms:9.1f} {who:<12} {template.format(*values)}" for now_ms, who, template, values in entries]

    def trace_hash(self) -> str:
        """Return a digest of the whole trace and of the number of steps."""
        digest = hashlib.sha256(str(self.steps).encode())
        for line in self.trace_lines():
            digest.update(line.encode())
        return digest.hexdigest()
