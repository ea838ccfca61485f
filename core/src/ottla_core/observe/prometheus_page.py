"""The metrics of a process as a page that Prometheus reads, at ``/metrics``.

The page is made when it is asked for, in a thread of its own, by `prometheus_client`.
"""

from collections.abc import Iterator, Sequence
from threading import Thread
from typing import TYPE_CHECKING

from ottla_core.config import HostPort
from ottla_core.errors import OttlaError
from ottla_core.observe.catalogue.definition import Kind, MetricDefinition
from ottla_core.observe.histogram import HistogramReading
from ottla_core.observe.metrics import Metrics, Sample

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import Metric


class MetricsError(OttlaError):
    """The Prometheus endpoint cannot be opened."""


class PrometheusPage:
    """Serves a process's metrics over HTTP.

    Raises:
        MetricsError: the port is in use.
    """

    def __init__(self, metrics: Metrics, address: HostPort) -> None:
        # Imported here because it takes memory that a process without an endpoint need not spend.
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(metrics))
        try:
            served: tuple[WSGIServer, Thread] = start_http_server(address.port, address.host, registry)
        except OSError as error:
            raise MetricsError(f"cannot serve metrics on {address}: {error.strerror}") from None
        self._server, self._thread = served

    def close(self) -> None:
        """Close the endpoint."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Collector:
    """Gives `prometheus_client` what it shows."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Sequence["Metric"]:
        """Return what will be collected, as far as duplicates are looked for: nothing."""
        return ()

    def collect(self) -> Iterator["Metric"]:
        """Yield every metric with its values."""
        for definition, samples in self._metrics.collect():
            yield prometheus_metric(definition, samples)


def prometheus_metric(definition: MetricDefinition, samples: Sequence[Sample]) -> "Metric":
    """Return a metric with its values as `prometheus_client` has them."""
    from prometheus_client.core import (  # noqa: PLC0415
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    name, sentence, labels = definition.name, definition.sentence, definition.label_names
    if definition.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, sentence, labels=labels)
        bounds = [*map(str, definition.buckets), "+Inf"]
        for sample in samples:
            assert isinstance(sample.value, HistogramReading)
            buckets = list(zip(bounds, sample.value.cumulative, strict=True))
            histogram.add_metric(sample.label_values, buckets, sample.value.total)
        return histogram
    family = CounterMetricFamily if definition.kind is Kind.COUNTER else GaugeMetricFamily
    metric = family(name, sentence, labels=labels)
    for sample in samples:
        assert not isinstance(sample.value, HistogramReading)
        metric.add_metric(sample.label_values, sample.value)
    return metric
