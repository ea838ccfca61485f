"""A line over time as the points of an SVG, drawn by the server: no script, and a summary to be read out. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla_console.views.numbers import span_text

WIDTH: Final = 600
HEIGHT: Final = 96
MARGIN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    """What the template `line_chart.html` draws.

    Attributes:
        line: points of a polyline.
        area: of the polygon below it.
        newest, highest: values in words.
        spans_s: seconds between the first and the last value.
    """

    title: str
    line: str
    area: str
    newest: str
    highest: str
    spans_s: int

    @property
    def summary(self) -> str:
        """What is read out."""
        return f"{self.title}: {self.newest} now, {self.highest} at most in the last {span_text(self.spans_s)}"


def line_chart(title: str, points: Sequence[tuple[float, float]], words: Sequence[str]) -> LineChart | None:
    """Return a chart; None for fewer than two points.

    Args:
        title: what is shown.
        points: times in seconds, in order, with values.
        words: the values in words.
    """
    if len(points) < 2:
        return None
    first_s, last_s = points[0][0], points[-1][0]
    highest = max(value for _, value in points)
    placed = [
        (
            MARGIN + (WIDTH - 2 * MARGIN) * (at_s - first_s) / max(last_s - first_s, 1e-3),
            HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (value / highest if highest > 0 else 0),
        )
        for at_s, value in points
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    floor = HEIGHT - MARGIN
    return LineChart(
        title=title,
        line=line,
        area=f"{placed[0][0]:.1f},{floor} {line} {placed[-1][0]:.1f},{floor}",
        newest=words[-1],
        highest=words[max(range(len(points)), key=lambda number: points[number][1])],
        spans_s=round(last_s - first_s),
    )
