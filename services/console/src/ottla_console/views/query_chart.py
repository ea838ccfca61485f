"""The answer of a query as a chart, where its first column says what and another how much. Pure.

A time makes a line, a text or a whole number bars. Both begin at 0, and go below it for what is negative.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ottla_console.views.message_field import escaped
from ottla_console.views.query_result import is_number
from ottla_operations.queries.query_answer import Answer

BARS_MAX: Final = 50
POINTS_MAX: Final = 1_000
LABEL_CHARACTERS: Final = 60
WIDTH: Final = 600
HEIGHT: Final = 96
MARGIN: Final = 4
BAR_WIDTH: Final = 1_000
WHOLE_FROM: Final = 100_000
"""Numbers that are shown without a fraction; below it they have six digits at most."""
TIMES: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE")
LABELS: Final = ("VARCHAR", "BOOLEAN", "INTEGER", "BIGINT", "UUID")


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar, from `x` on and `width` wide, of `BAR_WIDTH` in all."""

    label: str
    value: str
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Bars with their labels, at most `BARS_MAX`."""

    title: str
    bars: Sequence[Bar]
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChart:
    """A line over time.

    Attributes:
        line: points of a polyline.
        zero: height at which 0 is.
        first, last: times.
        lowest, highest: values in words.
    """

    title: str
    line: str
    zero: float
    first: str
    last: str
    lowest: str
    highest: str

    @property
    def summary(self) -> str:
        """What is read out."""
        return f"{self.title} from {self.first} to {self.last}: between {self.lowest} and {self.highest}"


def bar_chart(answer: Answer) -> BarChart | None:
    """Return bars of the first column that has numbers, beside the first; None if there are none.

    Where all rows say the same in the first column, as those of ``SELECT *`` with their topic, bars tell nothing.
    """
    number = _measure(answer, LABELS)
    if number is None:
        return None
    pairs = [(row[0], float(row[number])) for row in answer.rows if isinstance(row[number], int | float)]
    shown = pairs[:BARS_MAX]
    if len({str(label) for label, _ in shown}) < 2:
        return None
    lowest, highest = min(0.0, *(value for _, value in shown)), max(0.0, *(value for _, value in shown))
    scale = BAR_WIDTH / ((highest - lowest) or 1)
    bars = [
        Bar(
            _label(label),
            _number_text(value),
            round((min(value, 0) - lowest) * scale, 1),
            round(abs(value) * scale, 1),
        )
        for label, value in shown
    ]
    return BarChart(title=escaped(answer.columns[number].name), bars=bars, is_cut=len(pairs) > len(shown))


def time_chart(answer: Answer) -> TimeChart | None:
    """Return a line of the first column that has numbers, over the times of the first; None if there are none."""
    number = _measure(answer, TIMES)
    if number is None:
        return None
    points = sorted(
        (at, float(row[number]), str(row[0]))
        for row in answer.rows[:POINTS_MAX]
        if isinstance(row[number], int | float) and (at := _seconds(row[0])) is not None
    )
    if len(points) < 2:
        return None
    values = [value for _, value, _ in points]
    lowest, highest = min(0.0, *values), max(0.0, *values)
    begins, spans = points[0][0], max(points[-1][0] - points[0][0], 1e-3)
    rise = (HEIGHT - 2 * MARGIN) / ((highest - lowest) or 1)
    placed = [
        (MARGIN + (WIDTH - 2 * MARGIN) * (at - begins) / spans, HEIGHT - MARGIN - (value - lowest) * rise)
        for at, value, _ in points
    ]
    return TimeChart(
        title=escaped(answer.columns[number].name),
        line=" ".join(f"{x:.1f},{y:.1f}" for x, y in placed),
        zero=round(HEIGHT - MARGIN + lowest * rise, 1),
        first=points[0][2],
        last=points[-1][2],
        lowest=_number_text(min(values)),
        highest=_number_text(max(values)),
    )


def _measure(answer: Answer, first_types: Sequence[str]) -> int | None:
    if not answer.columns or answer.columns[0].type not in first_types:
        return None
    return next((each for each in range(1, len(answer.columns)) if is_number(answer.columns[each].type)), None)


def _label(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return escaped(text if len(text) <= LABEL_CHARACTERS else f"{text[:LABEL_CHARACTERS]}…")


def _seconds(value: Any) -> float | None:
    """Return a time as seconds since the epoch, in UTC unless it says otherwise; None if it is none."""
    try:
        moment = datetime.fromisoformat(str(value))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _number_text(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or abs(value) >= WHOLE_FROM else f"{value:,.6g}"
