"""How many log lines may pass in a time: a token bucket. Pure."""


class LineBudget:
    """Lets `burst` lines pass at once, and `per_second` in the long run."""

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = float(burst)
        self._since_s: float | None = None

    def wait_s(self, now_s: float) -> float:
        """Return how long a line must wait from now on, in seconds; 0 if it may pass."""
        if self._since_s is not None:
            self._left = min(self._burst, self._left + (now_s - self._since_s) * self._per_second)
        self._since_s = now_s
        return max(0.0, (1 - self._left) / self._per_second)

    def take(self) -> None:
        """Count a line that passes."""
        self._left -= 1
