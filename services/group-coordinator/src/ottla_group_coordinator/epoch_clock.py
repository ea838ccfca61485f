"""The time that groups live by: milliseconds since the epoch, as records count them, but never going back."""

from ottla_core.clock import Clock


class EpochClock:
    """A wall clock that goes on at least as fast as the monotonic one.

    When the system's clock is set back, this one goes on from where it is, so that no deadline moves away. When it is
    set forward, this one follows, so that what is written into records is right from then on.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.time_ms() - clock.monotonic() * 1000

    def now_ms(self) -> int:
        """Return the time; never less than before."""
        monotonic_ms = self._clock.monotonic() * 1000
        self._ahead_ms = max(self._ahead_ms, self._clock.time_ms() - monotonic_ms)
        return int(self._ahead_ms + monotonic_ms)
