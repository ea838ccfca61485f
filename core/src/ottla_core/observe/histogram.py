"""A histogram of times that costs a tenth of a microsecond per time: plain integers by powers of two.

A time in nanoseconds is counted at its number of bits, without a search for its bucket and without a float. The
buckets that are shown are powers of two of nanoseconds, so each is a sum of whole entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

NS_PER_S: Final = 1_000_000_000
BITS_MAX: Final = 64
SHORTEST_BITS: Final = 16
"""The first bucket holds all below 2**16 ns, about 66 µs."""
LONGEST_BITS: Final = 35
"""The last bucket with a bound holds all below 2**35 ns, about 34 s."""

_EVERY_BIT: Final = range(SHORTEST_BITS, LONGEST_BITS + 1)
_EVERY_OTHER_BIT: Final = range(SHORTEST_BITS + 1, LONGEST_BITS + 1, 2)

TIME_BUCKETS: Final[Sequence[float]] = tuple(2**bits / NS_PER_S for bits in _EVERY_BIT)
"""The upper bounds in seconds: from 66 µs to 34 s, each twice the one before."""
COARSE_TIME_BUCKETS: Final[Sequence[float]] = tuple(2**bits / NS_PER_S for bits in _EVERY_OTHER_BIT)
"""Half as many, for what has many series: from 131 µs to 34 s, each four times the one before."""


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """A histogram's present values.

    Attributes:
        counts: how many values fell into each bucket (not below it), the last one without an upper bound.
        total: the sum of all values, in the metric's unit.
    """

    counts: Sequence[int]
    total: float

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    @property
    def cumulative(self) -> Sequence[int]:
        """How many values there were up to the bound of each bucket."""
        return tuple(accumulate(self.counts))


class TimeHistogram:
    """Counts times.

    Where every microsecond counts, a caller does what `add` does by itself: `counts[ns.bit_length()] += 1` and
    `total_ns += ns`, for a time that is not negative.
    """

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * (BITS_MAX + 1)
        self.total_ns = 0

    def add(self, ns: int) -> None:
        """Count a time in nanoseconds."""
        self.counts[ns.bit_length()] += 1
        self.total_ns += ns

    def add_several(self, ns: int, count: int) -> None:
        """Count a time in nanoseconds for several that took as long."""
        self.counts[ns.bit_length()] += count
        self.total_ns += ns * count

    def add_s(self, seconds: float) -> None:
        """Count a time in seconds; less than none counts as none."""
        self.add(max(0, int(seconds * NS_PER_S)))

    def reading(self) -> HistogramReading:
        """Return what was counted, in seconds, by `TIME_BUCKETS`."""
        return self._reading(_EVERY_BIT)

    def coarse_reading(self) -> HistogramReading:
        """Return what was counted, in seconds, by `COARSE_TIME_BUCKETS`."""
        return self._reading(_EVERY_OTHER_BIT)

    def _reading(self, bits: range) -> HistogramReading:
        """Return what was counted by buckets whose upper bounds have these numbers of bits."""
        counts, total_ns = tuple(self.counts), self.total_ns
        begins = (0, *(each + 1 for each in bits))
        ends = (*begins[1:], len(counts))
        return HistogramReading(
            tuple(sum(counts[begin:end]) for begin, end in zip(begins, ends, strict=True)), total_ns / NS_PER_S
        )
