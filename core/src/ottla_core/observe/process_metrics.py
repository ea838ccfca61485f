"""What the kernel knows of this process, under the names that all Prometheus clients use."""

from collections.abc import Iterable

from ottla_core.observe.catalogue.process import KERNEL
from ottla_core.observe.metrics import NO_LABELS, Labels, Metrics


def show_process(metrics: Metrics) -> None:
    """Show what the kernel knows of this process."""
    for definition in KERNEL:
        metrics.show(definition.name, lambda name=definition.name: _read(name))  # type: ignore[misc]


def _read(name: str) -> Iterable[tuple[float, Labels]]:
    """Yield the present value of one metric; nothing where the kernel does not tell."""
    # Imported here because it takes memory that a process whose metrics nobody reads need not spend.
    from prometheus_client import ProcessCollector  # noqa: PLC0415

    for metric in ProcessCollector(registry=None).collect():
        for sample in metric.samples:
            if sample.name == name:
                yield sample.value, NO_LABELS
