"""When a disk will be full, if it fills as it did of late.

Who asks brings the time and what is free. A lock guards it, as metrics are read in a thread of their own.
"""

import math
from collections import deque
from threading import Lock
from typing import Final

REMEMBERED_S: Final = 3600.0
"""How far back growth is looked at: long enough that a deleted segment or two do not count for much."""
LEAST_S: Final = 60.0
"""Growth over less time than this says nothing: after one burst every disk would be about to be full."""
SAMPLE_INTERVAL_S: Final = 30.0
"""Samples that come closer are not kept, which bounds how many there are."""


class DiskForecast:
    """Remembers what was free on one disk; several threads may ask."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()
        self._lock = Lock()

    def until_full_s(self, now_s: float, free_bytes: int) -> float:
        """Note what is free, and return in how many seconds nothing will be; infinity unless the disk fills.

        Args:
            now_s: of a clock that does not go back, in seconds.
            free_bytes: what may still be written.
        """
        with self._lock:
            while self._samples and self._samples[0][0] < now_s - REMEMBERED_S:
                self._samples.popleft()
            if not self._samples or now_s - self._samples[-1][0] >= SAMPLE_INTERVAL_S:
                self._samples.append((now_s, free_bytes))
            since_s, free_then_bytes = self._samples[0]
        if free_bytes <= 0:
            return 0.0
        if now_s - since_s < LEAST_S or free_then_bytes <= free_bytes:
            return math.inf
        return free_bytes * (now_s - since_s) / (free_then_bytes - free_bytes)
