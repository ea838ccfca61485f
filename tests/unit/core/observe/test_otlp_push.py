"""Metrics are pushed by OTLP, and a push that fails is counted."""

import socket
from contextlib import suppress
from threading import Thread

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric

from ottla_core.config import MetricsSettings, validated
from ottla_core.errors import ConfigurationError
from ottla_core.observe.catalogue import metrics_of
from ottla_core.observe.catalogue.definition import Kind, ProcessRole
from ottla_core.observe.catalogue.process import KERNEL
from ottla_core.observe.histogram import TimeHistogram
from ottla_core.observe.metrics import Metrics
from ottla_core.observe.publishing import publish_metrics
from tests.support.eventually_async import eventually_async
from tests.support.free_ports import free_port_block, free_ports
from tests.support.servers.metrics_receiver import receiving

PUSHES = "ottla_metrics_otlp_pushes_total"
BY_PUBLISHING = {*(each.name for each in KERNEL), "ottla_event_loop_delay_seconds", PUSHES}


def controller_metrics() -> Metrics:
    """Metrics of a controller: 3 each, and one time of a second in each histogram of several series."""
    metrics = Metrics(ProcessRole.CONTROLLER, "7")
    times = TimeHistogram()
    times.add_s(1.0)
    for name, definition in metrics_of(ProcessRole.CONTROLLER).items():
        if name in BY_PUBLISHING or name in metrics._readers:
            continue
        if definition.kind is Kind.HISTOGRAM:
            labels = dict.fromkeys(definition.label_names, "x")
            metrics.show(name, lambda labels=labels: [(times.reading(), labels)])
        else:
            labels = dict.fromkeys(definition.label_names, "x")
            metrics.show(name, lambda labels=labels: [(3, labels)])
    return metrics


def settings(port: int, **more: str) -> MetricsSettings:
    values = {"metrics.otlp.endpoint": f"http://127.0.0.1:{port}", "metrics.otlp.interval.ms": "100", **more}
    return MetricsSettings.model_validate(values)


def pushed(metrics: Metrics) -> dict[str, float]:
    return {
        sample.label_values[0]: sample.value
        for definition, samples in metrics.collect()
        if definition.name == PUSHES
        for sample in samples
    }


async def test_all_metrics_are_pushed_with_who_they_are_of_and_cumulative() -> None:
    port = free_port_block(1)
    metrics = controller_metrics()
    with (
        receiving(port) as receiver,
        publish_metrics(metrics, settings(port, **{"metrics.otlp.headers": "x-key=a=b"})),
    ):
        await eventually_async(lambda: receiver.requests.qsize() > 0, "a push")
        path, headers, body = receiver.requests.get()
    (of_process,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    resource = {each.key: each.value.string_value for each in of_process.resource.attributes}
    told: dict[str, Metric] = {each.name: each for each in of_process.scope_metrics[0].metrics}
    assert (path, headers["content-type"], headers["x-key"]) == ("/v1/metrics", "application/x-protobuf", "a=b")
    assert resource == {"service.name": "ottla-controller", "service.instance.id": "7"}
    assert told["ottla_controller_leads"].gauge.data_points[0].as_double == 3
    cpu = told["process_cpu_seconds_total"].sum
    assert (cpu.is_monotonic, cpu.aggregation_temporality) == (True, AGGREGATION_TEMPORALITY_CUMULATIVE)
    assert 0 < cpu.data_points[0].start_time_unix_nano < cpu.data_points[0].time_unix_nano
    (etcd,) = told["ottla_etcd_time_seconds"].histogram.data_points
    assert (etcd.count, etcd.sum, sum(etcd.bucket_counts)) == (1, 1.0, 1)
    assert len(etcd.bucket_counts) == len(etcd.explicit_bounds) + 1
    assert etcd.attributes[0].key == "operation"


async def test_pushes_that_fail_are_counted_until_the_receiver_is_back() -> None:
    port = free_port_block(1)
    metrics = controller_metrics()
    with publish_metrics(metrics, settings(port)):
        await eventually_async(lambda: pushed(metrics)["failed"] >= 1, "a failed push")
        assert pushed(metrics)["done"] == 0
        with receiving(port):
            await eventually_async(lambda: pushed(metrics)["done"] >= 1, "a push")


async def test_a_receiver_that_refuses_has_failed_the_push() -> None:
    port = free_port_block(1)
    metrics = controller_metrics()
    with receiving(port, status=503), publish_metrics(metrics, settings(port)):
        await eventually_async(lambda: pushed(metrics)["failed"] >= 1, "a failed push")
        assert pushed(metrics)["done"] == 0


async def test_a_redirect_is_not_followed_as_it_would_take_the_headers_along() -> None:
    port, elsewhere = free_ports(2)
    metrics = controller_metrics()
    with (
        receiving(elsewhere) as other,
        receiving(port, status=302, location=f"http://127.0.0.1:{elsewhere}/"),
        publish_metrics(metrics, settings(port)),
    ):
        await eventually_async(lambda: pushed(metrics)["failed"] >= 2, "failed pushes")
        assert pushed(metrics)["done"] == other.requests.qsize() == 0


async def test_nonsense_in_place_of_an_answer_does_not_end_the_pushes() -> None:
    def answer(connection: socket.socket) -> None:
        with connection:
            connection.recv(65_536)
            connection.sendall(b"nonsense\r\n\r\n")

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                answer(listener.accept()[0])

    metrics = controller_metrics()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve, args=(listener,))
        thread.start()
        try:
            with publish_metrics(metrics, settings(listener.getsockname()[1])):
                await eventually_async(lambda: pushed(metrics)["failed"] >= 2, "failed pushes")
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("key", ["metrics.otlp.endpoint", "metrics.otlp.headers"])
def test_a_setting_that_cannot_be_used_is_refused_without_telling_secrets(key: str) -> None:
    with pytest.raises(ConfigurationError, match=key) as refused:
        validated(MetricsSettings, {key: "s3cret"}, {})
    assert ("s3cret" in str(refused.value)) == (key == "metrics.otlp.endpoint")
