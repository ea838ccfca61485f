"""The time by which members' deadlines are counted: monotonic, and only as far as this process was awake. Pure.

Members are judged by what is heard of them. A process that did not run for a while (a stopped process, a stalled
disk or host) has heard nothing of them, however often they spoke, and what they said is still on its way through
sockets and queues when it wakes up. So this clock is to be ticked often, and between two ticks it goes on by at most
`UNATTENDED_MS_MAX`.
"""

from ottla_core.clock import Clock

TICK_S = 0.1
"""How often the clock is to be ticked."""

UNATTENDED_MS_MAX = 500
"""How much time between two ticks counts."""


class AwakeClock:
    """A clock that is ticked.

    Args:
        clock: the system's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counted_ms = 0
        self._ticked_ms = round(clock.monotonic() * 1000)

    def tick(self) -> None:
        """Note that the process is awake."""
        now_ms = round(self._clock.monotonic() * 1000)
        self._counted_ms += min(now_ms - self._ticked_ms, UNATTENDED_MS_MAX)
        self._ticked_ms = now_ms

    def now_ms(self) -> int:
        """Return milliseconds that never go back, from an arbitrary beginning."""
        since_tick_ms = round(self._clock.monotonic() * 1000) - self._ticked_ms
        return self._counted_ms + min(since_tick_ms, UNATTENDED_MS_MAX)
