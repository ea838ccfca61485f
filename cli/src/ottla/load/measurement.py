"""Numbers of a benchmark: rates, and the spread of many latencies. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PERCENTILES = (50.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True, slots=True)
class Spread:
    """How a set of latencies is spread, in milliseconds.

    Attributes:
        percentiles: latency by percentile; the smallest one that so many per cent do not exceed.
    """

    count: int
    mean_ms: float
    max_ms: float
    percentiles: Mapping[float, float]

    def to_document(self) -> dict[str, float]:
        """Return the figures by name, such as ``p99``."""
        named = {f"p{percentile:g}": round(value, 3) for percentile, value in self.percentiles.items()}
        return {"mean": round(self.mean_ms, 3), **named, "max": round(self.max_ms, 3)}


def spread_of(latencies_ms: Iterable[float]) -> Spread | None:
    """Return the spread of some latencies, or None if there are none."""
    ordered = sorted(latencies_ms)
    if not ordered:
        return None
    percentiles = {percentile: nearest_rank(ordered, percentile) for percentile in PERCENTILES}
    return Spread(len(ordered), math.fsum(ordered) / len(ordered), ordered[-1], percentiles)


def nearest_rank(ordered: list[float], percentile: float) -> float:
    """Return the smallest value of a sorted list that at least `percentile` per cent do not exceed."""
    rank = math.ceil(round(percentile / 100 * len(ordered), 6))
    return ordered[max(rank, 1) - 1]


def throughput(records: int, size_bytes: int, seconds: float) -> dict[str, Any]:
    """Return counts and rates of a run; a megabyte is 10^6 bytes."""
    duration = max(seconds, 1e-9)
    return {
        "records": records,
        "bytes": size_bytes,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / duration, 1),
        "megabytes_per_second": round(size_bytes / 1e6 / duration, 2),
    }


def due_at(began_s: float, sent: int, rate_per_second: float) -> float:
    """Return when the next record is due, for a steady rate from the beginning on."""
    return began_s + sent / rate_per_second
