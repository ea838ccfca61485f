"""What a metric is: a name, a kind, labels, and a sentence that says what it means.

Names follow Prometheus: they end with the unit, counters with ``_total`` behind it. The unit is read off the name, so
that the two cannot disagree.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ProcessRole(StrEnum):
    """What a process is, as its metrics say it."""

    BROKER = "broker"
    CONTROLLER = "controller"
    GROUP_COORDINATOR = "group-coordinator"
    CONNECT = "connect"
    MIRROR = "mirror"
    CONSOLE = "console"


class Kind(StrEnum):
    """How a metric moves, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    """What a metric counts, in the codes of UCUM that OpenTelemetry uses."""

    ONE = "1"
    BYTES = "By"
    SECONDS = "s"
    MILLISECONDS = "ms"


UNIT_SUFFIXES: Final = {"bytes": Unit.BYTES, "seconds": Unit.SECONDS, "milliseconds": Unit.MILLISECONDS}
TOTAL: Final = "_total"
NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
LABEL_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
RATE: Final = "_per_second"

ALL_ROLES: Final = frozenset(ProcessRole)


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a metric.

    Attributes:
        name: its name.
        meaning: what its values are.
        bound: what keeps the number of values bounded.
    """

    name: str
    meaning: str
    bound: str

    def __post_init__(self) -> None:
        assert LABEL_NAME.fullmatch(self.name), self.name
        assert self.meaning, self.name
        assert self.bound, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDefinition:
    """One metric.

    Attributes:
        name: as Prometheus shows it, but for the suffixes that it gives the parts of a histogram.
        kind: counter, gauge or histogram.
        sentence: what it says, for people.
        roles: the processes that show it.
        labels: in the order in which they are shown.
        buckets: the upper bounds of a histogram's buckets, without the last, which has none.
    """

    name: str
    kind: Kind
    sentence: str
    roles: frozenset[ProcessRole]
    labels: Sequence[Label] = ()
    buckets: Sequence[float] = ()

    def __post_init__(self) -> None:
        assert NAME.fullmatch(self.name), self.name
        assert (self.kind is Kind.COUNTER) == self.name.endswith(TOTAL), self.name
        assert self.sentence.endswith("."), self.name
        assert self.roles, self.name
        assert len(set(self.label_names)) == len(self.labels), self.name
        assert (self.kind is Kind.HISTOGRAM) == bool(self.buckets), self.name
        assert list(self.buckets) == sorted(set(self.buckets)), self.name

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of its labels, in order."""
        return tuple(label.name for label in self.labels)

    @property
    def unit(self) -> Unit:
        """What it counts."""
        bare = self.name.removesuffix(TOTAL)
        if bare.endswith(RATE):
            return Unit.ONE
        return UNIT_SUFFIXES.get(bare.rpartition("_")[2], Unit.ONE)


class MetricFamily:
    """Makes definitions of metrics that the same processes show."""

    def __init__(self, *roles: ProcessRole) -> None:
        self._roles = frozenset(roles)

    def counter(self, name: str, sentence: str, *labels: Label) -> MetricDefinition:
        """Return a metric that only grows while the process runs."""
        return MetricDefinition(name=name, kind=Kind.COUNTER, sentence=sentence, roles=self._roles, labels=labels)

    def gauge(self, name: str, sentence: str, *labels: Label) -> MetricDefinition:
        """Return a metric that goes up and down."""
        return MetricDefinition(name=name, kind=Kind.GAUGE, sentence=sentence, roles=self._roles, labels=labels)

    def histogram(self, name: str, sentence: str, buckets: Sequence[float], *labels: Label) -> MetricDefinition:
        """Return a metric that counts values by size."""
        return MetricDefinition(
            name=name, kind=Kind.HISTOGRAM, sentence=sentence, roles=self._roles, labels=labels, buckets=buckets
        )
