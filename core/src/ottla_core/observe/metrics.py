"""Metrics of a process, by OpenTelemetry, with a Prometheus endpoint.

Instruments of the OpenTelemetry SDK cost microseconds per call, so services do not call them: they bump plain
integers, and each metric here is observed by a function that reads those when the endpoint is scraped. A process
without an endpoint pays nothing, not even the import.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla_core.background import failures
from ottla_core.config import HostPort
from ottla_core.errors import OttlaError

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

Attributes = Mapping[str, str]
Reader = Callable[[], Iterable[tuple[float, Attributes]]]
"""Returns the present values, each with its attributes."""

NO_ATTRIBUTES: Attributes = {}


class MetricsError(OttlaError):
    """The Prometheus endpoint cannot be opened."""


class MetricsServer:
    """The metrics of one process, served over HTTP at ``/metrics``.

    Args:
        service: the service's name, such as ``ottla-broker``.
        instance: which of its kind this process is, such as ``1``.
        address: host and port to listen on.

    Raises:
        MetricsError: the port is in use.
    """

    def __init__(self, service: str, instance: str, address: HostPort) -> None:
        # Imported here because they take memory that a process without an endpoint need not spend.
        from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from prometheus_client import REGISTRY, start_http_server  # noqa: PLC0415

        resource = Resource.create({"service.name": service, "service.instance.id": instance})
        self._provider = MeterProvider([PrometheusMetricReader()], resource)
        self._meter = self._provider.get_meter(service)
        try:
            self._server, self._thread = start_http_server(address.port, address.host, REGISTRY)
        except OSError as error:
            raise MetricsError(f"cannot serve metrics on {address}: {error.strerror}") from None
        self.counter(
            "ottla_background_task_failures",
            "Unexpected exceptions of background tasks.",
            "1",
            lambda: [(count, {"task": kind}) for kind, count in tuple(failures.items())],
        )

    def counter(self, name: str, description: str, unit: str, read: Reader) -> None:
        """Add a metric that only grows."""
        self._meter.create_observable_counter(name, [_observer(read)], unit, description)

    def gauge(self, name: str, description: str, unit: str, read: Reader) -> None:
        """Add a metric that goes up and down."""
        self._meter.create_observable_gauge(name, [_observer(read)], unit, description)

    def close(self) -> None:
        """Close the endpoint."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._provider.shutdown()


def _observer(read: Reader) -> "Callable[[CallbackOptions], Iterable[Observation]]":
    from opentelemetry.metrics import Observation  # noqa: PLC0415

    def observe(_options: "CallbackOptions") -> "Iterable[Observation]":
        return [Observation(value, dict(attributes)) for value, attributes in read()]

    return observe
