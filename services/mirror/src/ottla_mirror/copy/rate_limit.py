"""How many bytes per second may be fetched: a debt that is paid off as time passes. No clock in here."""


class RateLimit:
    """A limit, or none.

    Attributes:
        bytes_per_s: None for no limit.
    """

    __slots__ = ("_free_from_s", "bytes_per_s")

    def __init__(self) -> None:
        self.bytes_per_s: float | None = None
        self._free_from_s = 0.0

    def take(self, size_bytes: int, now_s: float) -> None:
        """Count bytes that were fetched."""
        if self.bytes_per_s is not None:
            self._free_from_s = max(self._free_from_s, now_s) + size_bytes / self.bytes_per_s

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before the next fetch."""
        return max(0.0, self._free_from_s - now_s) if self.bytes_per_s is not None else 0.0
