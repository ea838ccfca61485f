"""Rates over a window of samples, and how long a client that is above one has to wait. Pure.

A rate is what was used within the window, over the length of the window. The window has `quota.window.num` samples of
`quota.window.size.seconds`; the oldest is dropped when it is older than all of them. A rate that has begun lately is
taken over the whole window but one sample, so that a first burst is allowed.

Source: Kafka's SampledStat, Rate and QuotaUtils.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

THROTTLE_MS_MAX: Final = 2**31 - 1
"""The most that an answer can say."""


@dataclass(frozen=True, slots=True)
class RateWindow:
    """How long use is remembered.

    Attributes:
        samples: how many samples there are.
        sample_ms: the length of one.
    """

    samples: int
    sample_ms: int

    @property
    def milliseconds(self) -> int:
        """The length of all samples."""
        return self.samples * self.sample_ms

    @property
    def seconds(self) -> float:
        """The length of all samples."""
        return self.samples * self.sample_ms / 1000


class SampledRate:
    """How much was used lately. `now_ms` is of a clock that does not go back.

    Attributes:
        pending: what was used and is not recorded yet, as it is too little to ask a clock for it.
        is_kept: whether it is the one that all go by who share the quota (`usage_table.py`).
    """

    __slots__ = ("_samples", "_total", "_window", "is_kept", "pending")

    def __init__(self, window: RateWindow) -> None:
        self._window = window
        self._samples: deque[list[float]] = deque()  # of when it began, when it was last added to, and how much
        self._total = 0.0
        self.pending = 0.0
        self.is_kept = False

    def record(self, value: float, now_ms: int) -> None:
        """Note that so much was used; a negative value takes back what was noted."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window.sample_ms:
            samples.append([now_ms, now_ms, 0.0])
            if len(samples) > self._window.samples:
                self._total -= samples.popleft()[2]
        newest = samples[-1]
        newest[1] = now_ms
        newest[2] += value
        self._total += value

    def throttle_ms(self, limit_per_second: float, now_ms: int) -> int:
        """Return for how many milliseconds nothing may be used for the rate to come down to a limit; 0 if it is."""
        length_ms = self._length_ms(now_ms)
        excess = self._total * 1000 / length_ms - limit_per_second
        return _whole_ms(excess / limit_per_second * length_ms) if excess > 0 else 0

    @property
    def is_unused(self) -> bool:
        """Whether nothing was used in the window, when it was last looked at."""
        return self._total <= 0

    def is_over(self, now_ms: int) -> bool:
        """Return whether nothing was used within the window."""
        self._length_ms(now_ms)
        return not self._samples

    def per_second(self, now_ms: int) -> float:
        """Return the rate."""
        length_ms = self._length_ms(now_ms)
        return self._total * 1000 / length_ms

    def _length_ms(self, now_ms: int) -> float:
        """Drop the samples that are too old, and return over how long the rest is taken."""
        samples, sample_ms = self._samples, self._window.sample_ms
        while samples and now_ms - samples[0][1] >= self._window.samples * sample_ms:
            self._total -= samples.popleft()[2]
        if not samples:
            self._total = 0.0
        elapsed_ms = now_ms - samples[0][0] if samples else 0
        missing = self._window.samples - 1 - elapsed_ms // sample_ms
        if missing > 0:
            elapsed_ms += missing * sample_ms
        return max(elapsed_ms, sample_ms)


class TokenBucket:
    """What may be used still of a rate, which is saved up over the window (KIP-599). Source: Kafka's TokenBucket.

    Attributes:
        is_kept: whether it is the one that all go by who share the quota (`usage_table.py`).
    """

    __slots__ = ("_filled_ms", "_limit_per_second", "_tokens", "_window", "is_kept")

    def __init__(self, window: RateWindow) -> None:
        self._window = window
        self._tokens = 0.0
        self._limit_per_second = 0.0
        self._filled_ms: int | None = None
        self.is_kept = False

    def record(self, value: float, limit_per_second: float, now_ms: int) -> None:
        """Take out so many tokens; there may be fewer than none then."""
        self._fill(limit_per_second, now_ms)
        self._tokens -= value

    def throttle_ms(self, limit_per_second: float, now_ms: int) -> int:
        """Return after how many milliseconds there is no debt; 0 if there is none."""
        self._fill(limit_per_second, now_ms)
        return _whole_ms(-self._tokens / limit_per_second * 1000) if self._tokens < 0 else 0

    def is_over(self, now_ms: int) -> bool:
        """Return whether it is as full as a new one."""
        if self._filled_ms is None:
            return True
        self._fill(self._limit_per_second, now_ms)
        return self._tokens >= self._limit_per_second * self._window.seconds

    def _fill(self, limit_per_second: float, now_ms: int) -> None:
        self._limit_per_second = limit_per_second
        most = limit_per_second * self._window.seconds
        if self._filled_ms is None:
            self._tokens = most
        else:
            gained = (now_ms - self._filled_ms) / 1000 * limit_per_second
            self._tokens = min(most, self._tokens + gained)
        self._filled_ms = now_ms


def _whole_ms(wait_ms: float) -> int:
    return round(min(wait_ms, THROTTLE_MS_MAX))  # a tiny limit makes it infinite
