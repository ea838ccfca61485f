"""The metrics of a process: what the catalogue defines, each with a function that reads its present values.

Services bump plain integers; a metric's reader looks at those when somebody asks, which is a scrape of the Prometheus
page (`prometheus_page.py`) or a push by OTLP (`otlp_push.py`). Readers run in another thread than the event loop, so
they look at what they read once, and copy what may change meanwhile. A process that nobody asks pays nothing.

Two bounds hold for every metric: it has `SERIES_MAX` series at most, the rest is left out and counted, and a reader
that fails costs its own metric, not the others.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import structlog

from ottla_core.background import failures
from ottla_core.observe.catalogue import metrics_of
from ottla_core.observe.catalogue.definition import Kind, MetricDefinition, ProcessRole
from ottla_core.observe.histogram import HistogramReading

Labels = Mapping[str, str]
Value = float | HistogramReading
Reader = Callable[[], Iterable[tuple[Value, Labels]]]
"""Returns the present values, each with the values of its labels."""

NO_LABELS: Labels = {}
SERIES_MAX = 5000
"""How many series one metric of one process may have; the same bound holds for its labels' text in a scrape."""
READ_ATTEMPTS_MAX = 3
"""A dictionary that grows while it is read is read again."""

logger = structlog.get_logger("metrics")


@dataclass(frozen=True, slots=True)
class Sample:
    """One series' present value; the values of its labels are in the order of the definition."""

    label_values: Sequence[str]
    value: Value


class Metrics:
    """The metrics of one process.

    Args:
        role: what the process is.
        instance: which of its role, such as ``1``.

    Attributes:
        left_out: how many series were left out at the last reading, by metric.
        failed_readings: how many readings have failed, by metric.
    """

    def __init__(self, role: ProcessRole, instance: str) -> None:
        self.role = role
        self.instance = instance
        self.left_out: Counter[str] = Counter()
        self.failed_readings: Counter[str] = Counter()
        self._defined = metrics_of(role)
        self._readers: dict[str, Reader] = {}
        self.show("ottla_background_task_failures_total", counted("task", failures))
        self.show("ottla_metrics_series_left_out", counted("metric", self.left_out))
        self.show("ottla_metrics_failed_readings_total", counted("metric", self.failed_readings))

    def show(self, name: str, read: Reader) -> None:
        """Have a metric read by a function; the catalogue must define it for this role."""
        assert name in self._defined, f"the catalogue defines no metric {name} for a {self.role}"
        assert name not in self._readers, f"{name} is shown already"
        self._readers[name] = read

    def show_value(self, name: str, read: Callable[[], float]) -> None:
        """Have a metric without labels read by a function."""
        self.show(name, lambda: [(read(), NO_LABELS)])

    def check_complete(self) -> None:
        """Assert that everything is shown that the catalogue defines for this role."""
        missing = self._defined.keys() - self._readers.keys()
        assert not missing, f"a {self.role} does not show {', '.join(sorted(missing))}"

    def collect(self) -> Iterator[tuple[MetricDefinition, Sequence[Sample]]]:
        """Yield every metric with its present values, in the order of the catalogue."""
        for name, definition in self._defined.items():
            if name in self._readers:
                yield definition, self._read(definition, self._readers[name])

    def _read(self, definition: MetricDefinition, read: Reader) -> Sequence[Sample]:
        try:
            samples, left_out = _bounded(definition, _read_whole(read))
        except Exception:  # one that fails must not keep the others from being shown
            if not self.failed_readings[definition.name]:
                logger.exception("a metric cannot be read", metric=definition.name)
            self.failed_readings[definition.name] += 1
            return ()
        if left_out:
            self.left_out[definition.name] = left_out
        else:
            self.left_out.pop(definition.name, None)
        return samples


def counted(label: str, counts: Mapping[str, float]) -> Reader:
    """Return a reader of what is counted by the values of one label."""
    return lambda: [(count, {label: key}) for key, count in tuple(counts.items())]


def _read_whole(read: Reader) -> Sequence[tuple[Value, Labels]]:
    """Read it, again if what is read was changed by the event loop meanwhile."""
    for _ in range(READ_ATTEMPTS_MAX - 1):
        try:
            return tuple(read())
        except RuntimeError:  # "changed size during iteration"
            continue
    return tuple(read())


def _bounded(definition: MetricDefinition, values: Sequence[tuple[Value, Labels]]) -> tuple[Sequence[Sample], int]:
    """Return the samples of a metric, and how many there would be beyond the bound."""
    names = definition.label_names
    for value, labels in values[:1]:
        assert labels.keys() == set(names), f"{definition.name} has labels {names}, not {tuple(labels)}"
        assert (definition.kind is Kind.HISTOGRAM) == isinstance(value, HistogramReading), definition.name
    samples = [Sample(tuple(labels[name] for name in names), value) for value, labels in islice(values, SERIES_MAX)]
    return samples, len(values) - len(samples)
