"""A simulated process: it can be killed, started again, paused and resumed, and has a clock of its own.

What a process has planned dies with it. While it is paused (SIGSTOP) everything that reaches it waits; its clock
goes on, as the real one does. The clock starts anywhere, and runs a little too fast or too slow.
"""

from collections.abc import Callable
from typing import Any

from tests.simulation.schedule import Event, Schedule

CLOCK_DRIFT_MAX = 0.002
"""Relative error of a process's clock; a lease of 2 s is thus judged wrong by at most 4 ms."""


class Process:
    """One process of the cluster, over all its lives.

    Attributes:
        name: its name in the trace and in the network.
        life: counts its starts; what belongs to an earlier life is dropped.
        is_running: whether it lives; a paused process does.
        is_paused: whether it is stopped.
    """

    def __init__(self, name: str, schedule: Schedule) -> None:
        self.name = name
        self.schedule = schedule
        self.life = 0
        self.is_running = False
        self.is_paused = False
        self._arrived: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._clock_rate = 1.0 + schedule.between(-CLOCK_DRIFT_MAX, CLOCK_DRIFT_MAX)
        self._clock_offset_ms = schedule.between(1_000_000, 9_000_000)

    def now_ms(self) -> int:
        """Return what this process's clock shows."""
        return int(self._clock_offset_ms + self.schedule.now_ms * self._clock_rate)

    def monotonic_s(self) -> float:
        """Return the same in seconds, with all the digits: whoever waits for a time must find that it has come."""
        return (self._clock_offset_ms + self.schedule.now_ms * self._clock_rate) / 1000

    def after(self, delay_ms: float, action: Callable[..., None], *arguments: Any) -> Event:
        """Plan something in this life of the process, by its own clock."""
        return self.schedule.after(delay_ms / self._clock_rate, self._act, self.life, action, arguments)

    def _act(self, life: int, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if life != self.life or not self.is_running:
            return
        if self.is_paused:
            self._arrived.append((action, arguments))
        else:
            self.perform(action, *arguments)

    def perform(self, action: Callable[..., None], *arguments: Any) -> None:
        """Do what is due or has arrived."""
        action(*arguments)

    def deliver(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> bool:
        """Let something from outside reach the process; return whether there was one to reach."""
        self._act(self.life, action, arguments)
        return self.is_running

    def start(self) -> None:
        """Start the process, or start it again."""
        assert not self.is_running
        self.life += 1
        self.is_running = True
        self.is_paused = False
        self.note("starts")
        self.on_start()

    def on_start(self) -> None:
        """What the process does first; it must forget its former life here."""

    def kill(self) -> None:
        """End the process without giving it a chance to do anything."""
        assert self.is_running
        self.is_running = False
        self.is_paused = False
        self._arrived.clear()
        self.note("is killed")

    def pause(self) -> None:
        """Stop the process where it is."""
        self.is_paused = True
        self.note("is paused")

    def resume(self) -> None:
        """Let a stopped process go on, beginning with what reached it meanwhile."""
        self.is_paused = False
        self.note("goes on")
        arrived, self._arrived = self._arrived, []
        for action, arguments in arrived:
            self.schedule.after(0.0, self._act, self.life, action, arguments)

    def note(self, template: str, *arguments: Any) -> None:
        """Add a line about this process to the trace."""
        self.schedule.note(self.name, template, *arguments)
