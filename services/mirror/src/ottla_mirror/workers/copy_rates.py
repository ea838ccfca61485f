"""How fast partitions are copied, and for how long they have been behind, out of a status every second. Pure."""

from collections import deque
from typing import Final, NamedTuple

RATE_WINDOW_S: Final = 10.0
SAMPLES_MAX: Final = 900
"""With a sample each second: a partition that is further behind is told to be this far."""


class Sample(NamedTuple):
    """A partition at one time.

    Attributes:
        time_s: when.
        records: copied until then.
        size_bytes: of these.
        source_end: the source's end, as it was known then; -1 if it was not.
    """

    time_s: float
    records: int
    size_bytes: int
    source_end: int


class CopyRates:
    """One partition's last samples."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def take(self, sample: Sample) -> None:
        """Take a sample; where nothing has changed for long, two of them say so."""
        samples = self._samples
        if len(samples) >= 2 and samples[-1][1:] == samples[-2][1:] == sample[1:]:
            samples.pop()
        samples.append(sample)

    def per_second(self, now_s: float) -> tuple[float, float]:
        """Return records and bytes per second over the last seconds."""
        recent = [each for each in self._samples if each.time_s >= now_s - RATE_WINDOW_S]
        if len(recent) < 2:
            return 0.0, 0.0
        first, last = recent[0], recent[-1]
        elapsed_s = max(now_s - first.time_s, 0.001)
        return (last.records - first.records) / elapsed_s, (last.size_bytes - first.size_bytes) / elapsed_s

    def behind_s(self, position: int, now_s: float) -> float:
        """Return for how long the source has had records that are not copied; 0 if it has none.

        Args:
            position: the source offset below which everything is copied.
            now_s: the time.
        """
        if not self._samples or self._samples[-1].source_end <= position:
            return 0.0
        since_s = next(each.time_s for each in self._samples if each.source_end > position)
        return max(now_s - since_s, 0.0)
