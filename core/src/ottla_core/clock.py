"""Time as a dependency, so that whatever depends on it can be tested without waiting."""

import time
from typing import Protocol


def boot_time_s() -> float:
    """Return seconds of CLOCK_BOOTTIME, which goes on while the machine is suspended, as leases do."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock(Protocol):
    """A source of wall-clock and monotonic time."""

    def time_ms(self) -> int:
        """Return milliseconds since the Unix epoch, as record timestamps count them."""

    def monotonic(self) -> float:
        """Return seconds that never go back, for deadlines and durations."""


class SystemClock:
    """The operating system's clocks."""

    def time_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return the time of `boot_time_s`."""
        return boot_time_s()
