"""When a crashed process may start again.

Each crash within the window waits twice as long as the one before; after a fixed number of crashes in one window the
process is given up. A process that has behaved for a whole window starts with a clean sheet. Pure: time is an
argument.
"""

from collections import deque

RESTARTS_MAX = 5
WINDOW_S = 60.0
DELAY_FIRST_S = 0.25
DELAY_MAX_S = 8.0


class RestartPolicy:
    """The crashes of one process and what they earn it."""

    def __init__(self) -> None:
        self._crashes: deque[float] = deque()

    @property
    def crashes_in_window(self) -> int:
        """How many crashes the last decision was based on."""
        return len(self._crashes)

    def delay_after_crash_s(self, now_s: float) -> float | None:
        """Record a crash and return how many seconds to wait before the restart; None means give up."""
        while self._crashes and now_s - self._crashes[0] > WINDOW_S:
            self._crashes.popleft()
        self._crashes.append(now_s)
        if len(self._crashes) > RESTARTS_MAX:
            return None
        return min(DELAY_FIRST_S * 2.0 ** (len(self._crashes) - 1), DELAY_MAX_S)
