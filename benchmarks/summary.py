"""Numbers about numbers: percentiles, median and range, ratios against the floor, and tables as text. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PERCENTILES = (50.0, 99.0, 99.9)

Measures = Mapping[str, float]
"""What one repetition of one benchmark found, by the name of the figure, which ends with its unit."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure over all repetitions."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return short(self.median)
        return f"{short(self.median)} ({short(self.low)}–{short(self.high)})"


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` per cent of the values do not exceed.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values have no percentiles")
    rank = math.ceil(round(percent / 100 * len(values), 6))
    return sorted(values)[max(rank, 1) - 1]


def percentiles(values: Sequence[float], name: str) -> dict[str, float]:
    """Return the usual percentiles and the largest value; `name` is what is measured, such as ``ack_{}_ms``."""
    ordered = sorted(values)
    named = {name.format(f"p{percent:g}"): percentile(ordered, percent) for percent in PERCENTILES}
    return {**named, name.format("max"): ordered[-1]}


def figure(values: Sequence[float]) -> Figure:
    """Return the median and range of a figure's repetitions."""
    return Figure(statistics.median(values), min(values), max(values))


def figures(repetitions: Sequence[Measures]) -> dict[str, Figure]:
    """Return every figure that all repetitions of a benchmark have."""
    if not repetitions:
        return {}
    names = [name for name in repetitions[0] if all(name in measures for measures in repetitions)]
    return {name: figure([measures[name] for measures in repetitions]) for name in names}


def ratios(subject: Sequence[Measures], floor: Sequence[Measures]) -> dict[str, Figure]:
    """Return subject/floor by figure, taken between the repetitions that ran next to each other.

    Neighbours are compared because a machine's speed drifts. A figure that is zero on the floor has no ratio.
    """
    pairs = list(zip(subject, floor, strict=False))
    if not pairs:
        return {}
    return {
        name: figure([mine[name] / base[name] for mine, base in pairs])
        for name in pairs[0][0]
        if all(name in mine and base.get(name) for mine, base in pairs)
    }


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned table: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
    lines = []
    for row in (headings, ["-" * width for width in widths], *rows):
        cells = [cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in
                 enumerate(zip(row, widths, strict=True))]  # fmt: skip
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def short(value: float) -> str:
    """Return a number with about three significant digits, and thousands separated."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"
