"""Clients' metrics (KIP-714): from a subscription to a push, and on to Prometheus and a receiver of OTLP."""

import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from ottla_core.kafka_uuid import uuid_text
from ottla_core.wire.compression import Codec, compress
from tests.support.clients.client_metrics_commands import (
    NO_INSTANCE,
    alter_subscription,
    ask_what_is_wanted,
    describe_subscription,
    push,
    shown,
    subscriptions,
)
from tests.support.clients.raw_client import RawClient, request_type
from tests.support.clusters.service_process import SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.servers.metrics_receiver import Receiver, receiving

pytestmark = pytest.mark.slow

OF_THE_SUBSCRIPTION, DEFAULT = 7, 5
TELEMETRY_KEYS = {71, 72}
SIZE_BYTES_MAX = 100_000
CODECS = [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]


class Observed:
    """A broker that shows clients' metrics, and the receiver to which it passes them on."""

    def __init__(self, services: SingleBrokerServices, receiver: Receiver, metrics_url: str) -> None:
        self.services = services
        self.receiver = receiver
        self.metrics_url = metrics_url

    @property
    def bootstrap(self) -> str:
        return self.services.broker.bootstrap

    def received(self, client_id: str) -> dict[str, dict[str, str]]:
        """Waits for metrics of a client to be passed on; returns their resource's attributes by metric."""
        deadline = time.monotonic() + 30
        while True:
            try:
                _, _, body = self.receiver.requests.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                raise AssertionError(f"nothing of {client_id} was passed on") from None
            found = {}
            for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                told = {each.key: each.value.string_value for each in of_resource.resource.attributes}
                if told.get("client_id") == client_id:
                    found |= {metric.name: told for scope in of_resource.scope_metrics for metric in scope.metrics}
            if found:
                return found


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    otlp_port, page_port = free_ports(2)
    settings = {
        "metrics.listener": f"{LOOPBACK}:{page_port}",
        "metrics.otlp.endpoint": f"http://{LOOPBACK}:{otlp_port}",
        "metrics.otlp.interval.ms": "3600000",
        "telemetry.max.bytes": str(SIZE_BYTES_MAX),
    }
    directory = tmp_path_factory.mktemp("client-metrics")
    with (
        receiving(otlp_port) as receiver,
        SingleBrokerServices(directory, broker_settings=settings) as services,
    ):
        yield Observed(services, receiver, f"http://{LOOPBACK}:{page_port}/metrics")


@pytest.fixture
def client(observed: Observed) -> Iterator[RawClient]:
    with RawClient.to(observed.bootstrap) as connected:
        yield connected
    with RawClient.to(observed.bootstrap) as after:
        for name in subscriptions(after):
            alter_subscription(after, name, {"metrics": None, "interval.ms": None, "match": None})


def subscribe(client: RawClient, **values: str) -> None:
    settings = {key.replace("_", "."): value for key, value in values.items()}
    assert alter_subscription(client, "watched", settings) == (ErrorCode.none, None)


def payload(latency: float = 5.0, sent: int = 3) -> bytes:
    delta = AGGREGATION_TEMPORALITY_DELTA
    metrics = [
        Metric(name="a.latency", gauge=Gauge(data_points=[NumberDataPoint(as_double=latency)])),
        Metric(name="a.sent", sum=Sum(data_points=[NumberDataPoint(as_int=sent)], aggregation_temporality=delta)),
    ]
    return MetricsData(
        resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=metrics)])]
    ).SerializeToString()


def test_a_subscription_is_set_shown_listed_and_deleted(client: RawClient) -> None:
    name = "a name/with anything"
    assert describe_subscription(client, name)["interval.ms"] == ("300000", DEFAULT)
    assert name not in subscriptions(client)
    values = {"metrics": "org.apache.kafka.producer.", "interval.ms": "60000", "match": "client_id=orders-.*"}
    assert alter_subscription(client, name, values) == (ErrorCode.none, None)
    assert describe_subscription(client, name) == {key: (value, OF_THE_SUBSCRIPTION) for key, value in values.items()}
    assert subscriptions(client) == subscriptions(client, version=0) == {name}
    assert alter_subscription(client, name, {"interval.ms": "1"})[0] is ErrorCode.invalid_request
    assert alter_subscription(client, name, dict.fromkeys(values)) == (ErrorCode.none, None)
    assert subscriptions(client) == set()


def test_a_subscription_outlives_the_brokers_start(observed: Observed, client: RawClient) -> None:
    subscribe(client, metrics="a.", interval_ms="100")
    observed.services.broker.stop()
    observed.services.broker.start()
    with RawClient.to(observed.bootstrap) as again:
        assert subscriptions(again) == {"watched"}
        assert ask_what_is_wanted(again).requested_metrics == ("a.",)


def test_a_client_is_told_what_is_wanted_and_given_an_instance_id(client: RawClient) -> None:
    subscribe(client, metrics="a.,b.", interval_ms="60000", match="client_id=raw-client")
    alter_subscription(client, "others", {"metrics": "*", "match": "client_id=somebody-else"})
    told = ask_what_is_wanted(client)
    assert told.error_code is ErrorCode.none
    assert told.client_instance_id not in (None, NO_INSTANCE)
    assert told.requested_metrics == ("a.", "b.")
    assert told.push_interval.total_seconds() == 60
    assert (told.telemetry_max_bytes, told.delta_temporality) == (SIZE_BYTES_MAX, True)
    assert list(told.accepted_compression_types) == CODECS
    again = ask_what_is_wanted(client, told.client_instance_id)
    assert again.error_code is ErrorCode.throttling_quota_exceeded


@pytest.mark.parametrize("codec", [Codec.NONE, *CODECS])
def test_what_a_client_pushes_is_shown_and_passed_on(observed: Observed, client: RawClient, codec: Codec) -> None:
    subscribe(client, metrics="a.", interval_ms="100")
    client_id = f"pusher-{codec.name}"
    with Named.to(observed.bootstrap) as named:
        named.client_id = client_id
        told = ask_what_is_wanted(named)
        instance_id = UUID(str(told.client_instance_id))
        pushed = push(named, instance_id, told.subscription_id, compress(codec, payload()), codec=codec)
    assert pushed is ErrorCode.none
    attributes = observed.received(client_id)["a.latency"]
    assert attributes["client_instance_id"] == uuid_text(instance_id)
    assert (attributes["broker_id"], attributes["client_source_address"]) == ("1", LOOPBACK)
    assert shown(observed.metrics_url, "ottla_broker_client_metric_highest", client_id=client_id) == {
        (client_id, "a.latency"): 5.0
    }


class Named(RawClient):
    """A client with a client id of its own."""

    client_id = ""

    def send_request(self, request: object, *, client_id: str | None = None) -> int:
        return super().send_request(request, client_id=client_id or self.client_id)


def test_pushes_are_refused_as_kafka_refuses_them(client: RawClient) -> None:
    subscribe(client, metrics="a.", interval_ms="3600000")
    told = ask_what_is_wanted(client)
    instance_id = UUID(str(told.client_instance_id))
    assert push(client, NO_INSTANCE, told.subscription_id, payload()) is ErrorCode.invalid_request
    assert push(client, instance_id, told.subscription_id ^ 1, payload()) is ErrorCode.unknown_subscription_id
    assert ask_what_is_wanted(client, instance_id).error_code is ErrorCode.none
    assert push(client, instance_id, told.subscription_id, payload(), codec=9) is (
        ErrorCode.unsupported_compression_type
    )
    assert ask_what_is_wanted(client, instance_id).error_code is ErrorCode.none
    assert push(client, instance_id, told.subscription_id, payload()) is ErrorCode.none
    assert push(client, instance_id, told.subscription_id, payload()) is ErrorCode.throttling_quota_exceeded
    assert push(client, instance_id, told.subscription_id, payload(), is_last=True) is ErrorCode.none
    assert push(client, instance_id, told.subscription_id, payload()) is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("metrics", "codec", "code"),
    [
        (b"no metrics", Codec.NONE, ErrorCode.invalid_record),
        (b"damaged", Codec.ZSTD, ErrorCode.invalid_record),
        (bytes(SIZE_BYTES_MAX + 1), Codec.NONE, ErrorCode.telemetry_too_large),
        (compress(Codec.ZSTD, bytes(1 << 30)), Codec.ZSTD, ErrorCode.telemetry_too_large),
        (compress(Codec.ZSTD, b"\x0a\x00" * (1 << 20)), Codec.ZSTD, ErrorCode.telemetry_too_large),
    ],
)
def test_what_cannot_be_read_or_is_too_much_is_refused(
    client: RawClient, metrics: bytes, codec: Codec, code: ErrorCode
) -> None:
    subscribe(client, metrics="a.", interval_ms="100")
    told = ask_what_is_wanted(client)
    instance_id = UUID(str(told.client_instance_id))
    assert push(client, instance_id, told.subscription_id, metrics, codec=codec) is code


def test_increases_are_added_up_and_vanish_with_the_last_push(observed: Observed, client: RawClient) -> None:
    subscribe(client, metrics="a.", interval_ms="100")
    name = "ottla_broker_client_metric_increase_total"
    with Named.to(observed.bootstrap) as named:
        named.client_id = "counter"
        told = ask_what_is_wanted(named)
        instance_id = UUID(str(told.client_instance_id))

        def taken(sent: int, *, is_last: bool = False) -> bool:
            pushed = push(named, instance_id, told.subscription_id, payload(sent=sent), is_last=is_last)
            return pushed is ErrorCode.none

        for sent in (3, 4):
            eventually(lambda sent=sent: taken(sent), "the interval is over")
        assert shown(observed.metrics_url, name, client_id="counter") == {("counter", "a.sent"): 7.0}
        assert taken(1, is_last=True)
        assert shown(observed.metrics_url, name, client_id="counter") == {}


def test_librdkafka_pushes_what_it_is_asked_for(observed: Observed, client: RawClient) -> None:
    subscribe(client, metrics="*", interval_ms="500", match="client_software_name=.*,client_id=confluent.*")
    messages: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": observed.bootstrap,
            "client.id": "confluent-producer",
            "enable.metrics.push": True,
            "error_cb": lambda error: messages.append(str(error)),
        }
    )

    def pushes() -> dict[str, dict[str, str]]:
        producer.produce("watched", b"x")
        producer.poll(0.1)
        found = shown(
            observed.metrics_url, "ottla_broker_client_metric_increase_total", client_id="confluent-producer"
        )
        return {metric: {} for _, metric in found}

    producer.produce("watched", b"x")
    producer.flush(30)
    eventually(pushes, "metrics of the producer are shown", within_s=60)
    told = observed.received("confluent-producer")
    name, attributes = next(iter(told.items()))
    assert name.startswith("org.apache.kafka.producer.")
    assert attributes["client_software_name"]
    producer.flush(30)
    assert messages == []


def test_a_broker_that_shows_no_metrics_does_not_advertise_these_apis(observed: Observed, tmp_path: Path) -> None:
    with SingleBrokerServices(tmp_path) as services, RawClient.to(services.broker.bootstrap) as silent:
        assert not TELEMETRY_KEYS & advertised(silent)
        told = ask_what_is_wanted(silent)
        assert told.error_code is ErrorCode.none, "as in Kafka, whoever asks all the same is answered"
    with RawClient.to(observed.bootstrap) as showing:
        assert advertised(showing) >= TELEMETRY_KEYS


def advertised(client: RawClient) -> set[int]:
    return {api.api_key for api in client.ask(request_type(18, 0)()).api_keys}


def test_instances_that_are_made_up_are_counted(observed: Observed, client: RawClient) -> None:
    before = shown(observed.metrics_url, "ottla_broker_client_instances")[()]
    for _ in range(10):
        assert ask_what_is_wanted(client, uuid4()).error_code is ErrorCode.none
    assert shown(observed.metrics_url, "ottla_broker_client_instances")[()] == before + 10
