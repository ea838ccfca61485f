"""How topics have grown lately, in bounded memory: compact columns of numbers for each moment. Pure.

Moments are kept at two scales: every ten seconds, or more, of a quarter of an hour, and every quarter of an hour of a
day. A moment has two numbers for each topic, 12 bytes, so 5,000 topics of a cluster that somebody looks at take 5 MB
after a quarter of an hour, and 11 MB after a day. A topic has a place in the columns while the cluster has the topic.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan, nan
from typing import Final

from ottla_console.views.line_chart import LineChart, line_chart
from ottla_console.views.numbers import bytes_rate_text, bytes_text, rate_text
from ottla_operations.activity.activity import TopicActivity

TOPICS_MAX: Final = 5_000
"""Of more topics, those that grew most at the first look are kept, and those whose page somebody opens."""
RECENT_INTERVAL_S: Final = 10.0
RECENT_POINTS_MAX: Final = 90
LONG_INTERVAL_S: Final = 900.0
LONG_POINTS_MAX: Final = 96
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class _Moment:
    """Rates and sizes by place; not a number where not known."""

    at_s: float
    records_per_s: "array[float]"
    log_bytes: "array[float]"


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """A topic at a moment, in seconds since 1970; the rate is the mean since the moment before."""

    at_s: float
    records_per_s: float
    log_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGrowth:
    """What has been seen of a topic.

    Attributes:
        span_s: from the first moment to the last of the last minutes.
        records: that were produced in it.
        grown_bytes: by which one copy is larger than at its beginning; negative where it has become smaller.
        charts: of the last minutes, and of the last hours where there are some.
    """

    span_s: float
    records: float
    grown_bytes: float
    charts: Sequence[LineChart]

    @property
    def bytes_in_a_day(self) -> float:
        """How much would be added in a day at this pace."""
        return self.grown_bytes * DAY_S / self.span_s


class _Scale:
    """The moments of one scale."""

    def __init__(self, interval_s: float, points_max: int) -> None:
        self._interval_s = interval_s
        self._span_s = interval_s * points_max
        self._moments: deque[_Moment] = deque(maxlen=points_max)
        self._records: array[float] = array("d")
        self._seen_s = 0.0

    def note(self, at_s: float, took_s: float, records: "array[float]", log_bytes: "array[float]") -> None:
        """Add what was produced in so many seconds; a moment is kept once the last one is long enough ago."""
        self._records.extend([0.0] * (len(records) - len(self._records)))
        for place, count in enumerate(records):
            self._records[place] += count
        self._seen_s += took_s
        if self._moments and at_s - self._moments[-1].at_s < self._interval_s:
            return
        rates = array("f", (count / self._seen_s for count in self._records))
        self._moments.append(_Moment(at_s, rates, log_bytes))
        while at_s - self._moments[0].at_s > self._span_s:
            self._moments.popleft()
        self._records = array("d", bytes(len(self._records) * self._records.itemsize))
        self._seen_s = 0.0

    def clear(self, place: int) -> None:
        """Forget what stood at a place, as another topic gets it."""
        for each in self._moments:
            if place < len(each.log_bytes):
                each.records_per_s[place] = each.log_bytes[place] = nan
        if place < len(self._records):
            self._records[place] = 0.0

    def points(self, place: int) -> list[GrowthPoint]:
        """Return what is known of a topic."""
        return [
            GrowthPoint(each.at_s, each.records_per_s[place], each.log_bytes[place])
            for each in self._moments
            if place < len(each.log_bytes) and not isnan(each.log_bytes[place])
        ]

    @property
    def numbers(self) -> int:
        """How many numbers are kept."""
        return len(self._records) + sum(len(each.records_per_s) + len(each.log_bytes) for each in self._moments)


class TopicHistories:
    """The moments of all topics."""

    def __init__(self) -> None:
        self._places: OrderedDict[str, int] = OrderedDict()
        self._free: list[int] = []
        self._recent = _Scale(RECENT_INTERVAL_S, RECENT_POINTS_MAX)
        self._long = _Scale(LONG_INTERVAL_S, LONG_POINTS_MAX)

    @property
    def topics(self) -> int:
        """How many topics are kept."""
        return len(self._places)

    @property
    def numbers(self) -> int:
        """How many numbers are kept, of 4 or 8 bytes."""
        return self._recent.numbers + self._long.numbers

    def note(self, at_s: float, took_s: float, topics: Sequence[TopicActivity]) -> None:
        """Add a look at all topics.

        Args:
            at_s: when, in seconds since 1970.
            took_s: since the look before, to which the rates belong.
            topics: those that grow most first.
        """
        there = {each.topic for each in topics}
        for gone in [name for name in self._places if name not in there]:
            self._free.append(self._places.pop(gone))
        new = [each.topic for each in topics if each.topic not in self._places][: TOPICS_MAX - len(self._places)]
        for name in reversed(new):  # so that the ones that grow least would make way first
            self._place(name)
        count = len(self._places) + len(self._free)
        records, log_bytes = array("d", [0.0] * count), array("d", [nan] * count)
        for each in topics:
            place = self._places.get(each.topic)
            if place is not None and not each.offline:  # else its size is not that of all its partitions
                records[place], log_bytes[place] = each.records_per_s * took_s, each.log_bytes
        for scale in (self._recent, self._long):
            scale.note(at_s, took_s, records, log_bytes)

    def use(self, topic: str) -> None:
        """Keep a topic whose page is open, in the place of another if there are too many."""
        if topic in self._places:
            self._places.move_to_end(topic)
            return
        if len(self._places) >= TOPICS_MAX:
            self._free.append(self._places.popitem(last=False)[1])
        self._place(topic)

    def of(self, topic: str) -> TopicGrowth | None:
        """Return how a topic has grown; None until it was seen twice."""
        place = self._places.get(topic)
        points = [] if place is None else self._recent.points(place)
        if place is None or len(points) < 2:
            return None
        return TopicGrowth(
            span_s=points[-1].at_s - points[0].at_s,
            records=sum(after.records_per_s * (after.at_s - before.at_s) for before, after in pairwise(points)),
            grown_bytes=points[-1].log_bytes - points[0].log_bytes,
            charts=[*_charts(points), *_charts(self._long.points(place))],
        )

    def _place(self, topic: str) -> None:
        place = self._free.pop() if self._free else len(self._places)
        for scale in (self._recent, self._long):
            scale.clear(place)
        self._places[topic] = place


def _charts(points: Sequence[GrowthPoint]) -> list[LineChart]:
    grown = [
        (after.at_s, max(0.0, after.log_bytes - before.log_bytes) / (after.at_s - before.at_s))
        for before, after in pairwise(points)
    ]
    found = [
        line_chart(
            "Records produced per second",
            [(each.at_s, each.records_per_s) for each in points],
            [f"{rate_text(each.records_per_s)}/s" for each in points],
        ),
        line_chart("Growth of one copy", grown, [bytes_rate_text(each) for _, each in grown]),
        line_chart(
            "Size of one copy",
            [(each.at_s, each.log_bytes) for each in points],
            [bytes_text(each.log_bytes) for each in points],
        ),
    ]
    return [each for each in found if each is not None]
