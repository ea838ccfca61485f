"""The simulated network: calls between processes, whose messages may be slow, lost, late, or cut off.

A call is one request and at most one answer. Each way takes its own time, so calls overtake each other, and a
request that its caller has given up on (and perhaps repeated) may still arrive and be carried out: that is how
duplicates come about over TCP. An answer finds its caller only in the same life. Links are cut one way or both.
"""

from collections.abc import Callable
from typing import Any

from tests.simulation.process import Process
from tests.simulation.schedule import Schedule

Answer = Callable[[Any], None]
Handler = Callable[[Any, Answer], None]

SHORTEST_DELAY_MS = 0.1


class Network:
    """Carries calls.

    Attributes:
        delay_max_ms: the longest that a message usually takes.
        late: the part of all messages that are held up much longer.
        late_max_ms: the longest that those take.
        loss: the part of all messages that get lost.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._cut: set[tuple[str, str]] = set()
        self.delay_max_ms = schedule.random.choice((1.0, 5.0, 20.0))
        self.late_max_ms = 3_000.0
        self.late = self.loss = 0.0

    def make_trouble(self) -> None:
        """Have messages late and lost from now on, as the seed says."""
        self.late = self._schedule.random.choice((0.0, 0.005, 0.03, 0.1))
        self.loss = self._schedule.random.choice((0.0, 0.0, 0.01, 0.03))

    def cut(self, source: str, target: str) -> None:
        """Let nothing through from one process to another; the other way is another link."""
        self._cut.add((source, target))

    def heal(self) -> None:
        """Mend all links, and have no more message lost or late."""
        self._cut.clear()
        self.late = self.loss = 0.0

    def mend(self, source: str, target: str) -> None:
        """Undo `cut`."""
        self._cut.discard((source, target))

    def is_cut(self, source: str, target: str) -> bool:
        """Return whether nothing gets through on a link."""
        return (source, target) in self._cut

    def call(
        self,
        caller: Process,
        target: Process,
        handler: Handler,
        request: Any,
        when_over: Answer,
        timeout_ms: float,
    ) -> None:
        """Send a request; `when_over` gets the answer, or None when there was none in time."""
        life = caller.life
        is_over = False

        def finish(answer: Any) -> None:
            nonlocal is_over
            if not is_over and caller.life == life:
                is_over = True
                self._schedule.drop(timeout)
                when_over(answer)

        def answer(content: Any) -> None:
            self._send(target, caller, finish, (content,))

        timeout = caller.after(timeout_ms, finish, None)
        self._send(caller, target, handler, (request, answer))

    def _send(self, source: Process, target: Process, action: Callable[..., None], content: tuple[Any, ...]) -> None:
        if not self.loses_one():
            self._schedule.after(self.delay_ms(), self._arrive, source.name, target, action, content)

    def loses_one(self) -> bool:
        """Return whether a message gets lost."""
        return self.loss > 0 and self._schedule.chance(self.loss)

    def delay_ms(self) -> float:
        """Return how long a message takes."""
        random = self._schedule.random.random
        if self.late and random() < self.late:
            return self.late_max_ms * random()
        return SHORTEST_DELAY_MS + self.delay_max_ms * random() ** 2

    def _arrive(self, source: str, target: Process, action: Callable[..., None], content: tuple[Any, ...]) -> None:
        if (source, target.name) not in self._cut:
            target.deliver(action, content)
