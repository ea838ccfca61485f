"""Begins traces in a process whose settings ask for them, and counts what becomes of its spans.

This file imports nothing of OpenTelemetry: a process without traces never does. What makes and sends spans stands in
`tracing.py`, which is imported when traces are on. Everybody who might make spans is given a `Tracing` or None, and
puts its own parts in place once, at the start; there is no question "are traces on?" on any path.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla_core.observe.metrics import Labels, Metrics
from ottla_core.trace_settings import TraceSettings

if TYPE_CHECKING:
    from ottla_core.observe.tracing import Tracing


@dataclass(slots=True)
class SpanCounts:
    """What became of the spans of this process.

    Attributes:
        sent: spans that the receiver has taken.
        dropped: spans that found the queue full, or that the process's end has overtaken.
        undelivered: spans that the receiver did not take, or that found nobody there.
    """

    sent: int = 0
    dropped: int = 0
    undelivered: int = 0

    def by_outcome(self) -> dict[str, int]:
        """Return them by the name of what became of the spans."""
        return {"sent": self.sent, "dropped": self.dropped, "undelivered": self.undelivered}


@dataclass(frozen=True, slots=True)
class TracedProcess:
    """What receivers of spans are told of the process.

    Attributes:
        service: OpenTelemetry's `service.name`, such as ``ottla-broker``.
        instance: which of them, `service.instance.id`.
        namespace: what they belong to, `service.namespace`: the cluster or the group of workers.
        version: its release, `service.version`.
    """

    service: str
    instance: str
    namespace: str
    version: str


def begin_traces(settings: TraceSettings, process: TracedProcess) -> "Tracing | None":
    """Return what makes spans, or None if the settings ask for none."""
    if not settings.makes_traces:
        return None
    from ottla_core.observe.tracing import Tracing  # noqa: PLC0415 - takes memory, and time at the start

    return Tracing(settings, process)


def show_traces(metrics: Metrics, tracing: "Tracing | None") -> None:
    """Show what became of spans; nothing but noughts while there are no traces."""
    counts = SpanCounts() if tracing is None else tracing.counts

    def read() -> Iterable[tuple[float, Labels]]:
        return [(count, {"outcome": outcome}) for outcome, count in counts.by_outcome().items()]

    metrics.show("ottla_trace_spans_total", read)
