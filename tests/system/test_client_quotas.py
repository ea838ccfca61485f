"""Quotas of clients on a real broker: what is answered, what is not read, and that changes hold at once."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.alter_client_quotas.v1 import request as alter
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64, i8

from tests.support.clients.raw_client import Closed, RawClient, Silence
from tests.support.clients.raw_requests import create_topic_request, metadata_request, produce_request, produced
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK
from tests.support.messages.record_batches import batch_of

pytestmark = pytest.mark.slow

TIMEOUT_S = 30
Entity = Mapping[str, str | None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    with OttlaCluster(tmp_path_factory.mktemp("quotas"), brokers=1) as made:
        yield made


def altered(cluster: OttlaCluster, entity: Entity, quotas: Mapping[str, float | None], **others: Any) -> Any:
    """What is answered to a change of quotas; None has one removed."""
    entry = alter.EntryData(
        entity=tuple(alter.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        ops=tuple(
            alter.OpData(key=name, value=f64(float(value or 0)), remove=value is None)
            for name, value in quotas.items()
        ),
    )
    with RawClient.to(cluster.bootstrap) as client:
        answer = client.ask(alter.AlterClientQuotasRequest(entries=(entry,), validate_only=others.get("only", False)))
    (result,) = answer.entries
    return result


def described(cluster: OttlaCluster) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    with RawClient.to(cluster.bootstrap) as client:
        answer = client.ask(DescribeClientQuotasRequest(components=(), strict=False))
    assert answer.error_code is ErrorCode.none
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


@pytest.fixture
def topic(cluster: OttlaCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic; all quotas of clients that a test sets are removed at its end."""
    name = request.node.name.replace("_", "-")[:100]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(TIMEOUT_S)
    yield name
    for entity, quotas in described(cluster).items():
        assert altered(cluster, dict(entity), dict.fromkeys(quotas)).error_code is ErrorCode.none


def producer(cluster: OttlaCluster, client_id: str, throttles: list[float]) -> Producer:
    return Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": client_id,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )


def produce(client: Producer, topic: str, size_bytes: int) -> None:
    client.produce(topic, bytes(size_bytes))
    assert client.flush(TIMEOUT_S) == 0


def test_quotas_are_kept_and_found_by_filters(cluster: OttlaCluster, topic: str) -> None:
    assert altered(cluster, {"user": "ada", "client-id": None}, {"producer_byte_rate": 1e6}).error_code == 0
    assert altered(cluster, {"ip": "10.1.1.1"}, {"connection_creation_rate": 5}).error_code == 0
    assert altered(cluster, {"user": "bob"}, {"producer_byte_rate": 7}, only=True).error_code == 0
    assert described(cluster) == {
        (("user", "ada"), ("client-id", None)): {"producer_byte_rate": 1e6},
        (("ip", "10.1.1.1"),): {"connection_creation_rate": 5.0},
    }
    with RawClient.to(cluster.bootstrap) as client:
        for component, strict, count in [
            (ComponentData(entity_type="user", match_type=i8(0), match="ada"), False, 1),
            (ComponentData(entity_type="user", match_type=i8(0), match="ada"), True, 0),
            (ComponentData(entity_type="client-id", match_type=i8(1), match=None), False, 1),
            (ComponentData(entity_type="ip", match_type=i8(2), match=None), True, 1),
            (ComponentData(entity_type="user", match_type=i8(0), match="bob"), False, 0),
        ]:
            answer = client.ask(DescribeClientQuotasRequest(components=(component,), strict=strict))
            assert len(answer.entries) == count
        wrong = ComponentData(entity_type="user", match_type=i8(0), match=None)
        answer = client.ask(DescribeClientQuotasRequest(components=(wrong,), strict=False))
        assert answer.error_code is ErrorCode.invalid_request


def test_the_command_sets_lists_and_removes_quotas(cluster: OttlaCluster, topic: str) -> None:
    ottla = Ottla(cluster.bootstrap)
    ottla.run(
        "quota", "set", "--user", "ada", "--default-client-id", "producer_byte_rate=5", "request_percentage=0.5"
    )
    ottla.run("quota", "set", "--ip", "10.1.1.1", "connection_creation_rate=3")
    assert ottla.json("quota", "list")["quotas"] == [
        {"entity": {"ip": "10.1.1.1"}, "quotas": {"connection_creation_rate": 3.0}},
        {
            "entity": {"user": "ada", "client-id": None},
            "quotas": {"producer_byte_rate": 5.0, "request_percentage": 0.5},
        },
    ]
    assert b"user ada, default client-id" in ottla.run("quota", "list").stdout
    ottla.run("quota", "remove", "--user", "ada", "--default-client-id", "producer_byte_rate")
    assert (("user", "ada"), ("client-id", None)) in described(cluster)
    ottla.run("quota", "remove", "--user", "ada", "--default-client-id")
    ottla.run("quota", "remove", "--ip", "10.1.1.1")
    assert not described(cluster)
    wrong = ottla.run("quota", "remove", "--user", "ada", fails_with=1)
    assert b"ottla quota list" in wrong.stderr
    ottla.run("quota", "set", "--user", "ada", "producer_byte_rate", fails_with=2)
    ottla.run("quota", "set", "producer_byte_rate=1", fails_with=2)


def test_a_wrong_quota_is_refused(cluster: OttlaCluster, topic: str) -> None:
    result = altered(cluster, {"user": "ada"}, {"producer_byte_rate": -1})
    assert result.error_code is ErrorCode.invalid_request
    assert "greater than 0" in result.error_message
    assert not described(cluster)


def test_a_producer_above_its_quota_is_told_and_one_that_has_none_is_not(cluster: OttlaCluster, topic: str) -> None:
    limited: list[float] = []
    free: list[float] = []
    slow, fast = producer(cluster, "limited", limited), producer(cluster, "free", free)
    produce(slow, topic, 100)
    produce(fast, topic, 100)
    assert altered(cluster, {"client-id": "limited"}, {"producer_byte_rate": 2000}).error_code == 0
    produce(slow, topic, 100)
    slow.poll(0)
    assert not limited, "a quota that is not reached throttles nobody"
    produce(slow, topic, 25_000)
    produce(fast, topic, 25_000)
    eventually(lambda: slow.poll(0.1) is not None and bool(limited), "librdkafka tells of the throttling")
    fast.poll(0)
    assert not free


def test_a_throttled_connection_is_answered_at_once_and_then_not_read(cluster: OttlaCluster, topic: str) -> None:
    assert altered(cluster, {"user": "ANONYMOUS"}, {"producer_byte_rate": 1000}).error_code == 0
    with RawClient.to(cluster.bootstrap) as client:
        answer = client.ask(produce_request(topic, batch_of([bytes(20_000)]).encode()))
        assert produced(answer).error_code is ErrorCode.none
        assert answer.throttle_time > timedelta(seconds=5)
        client.send_request(ApiVersionsRequest())
        with pytest.raises(Silence):
            client.read_frame(within_s=1)
        with RawClient.to(cluster.bootstrap) as other:
            other.ask(ApiVersionsRequest())  # only who produces is throttled
        assert client.read_frame(within_s=60)


def test_a_client_that_uses_too_much_time_is_throttled_for_a_sample_of_the_rate(
    cluster: OttlaCluster, topic: str
) -> None:
    assert altered(cluster, {"user": None}, {"request_percentage": 0.0001}).error_code == 0
    with RawClient.to(cluster.bootstrap) as client:
        answer = client.ask(metadata_request([topic]))
        assert timedelta(0) < answer.throttle_time <= timedelta(seconds=1)
        client.send_request(metadata_request([topic]))
        assert client.read_frame(within_s=60)


def test_a_reader_above_its_quota_gets_everything_in_the_end(cluster: OttlaCluster, topic: str) -> None:
    writer = producer(cluster, "writer", [])
    for _ in range(40):
        writer.produce(topic, bytes(1000))
    assert writer.flush(TIMEOUT_S) == 0
    assert altered(cluster, {"client-id": "reader"}, {"consumer_byte_rate": 3000}).error_code == 0
    throttles: list[float] = []
    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": "reader",
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 5000,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    reader.subscribe([topic])
    try:
        read: list[bytes] = []

        def has_read_all() -> bool:
            message = reader.poll(0.5)
            if message is not None and message.error() is None:
                read.append(message.value() or b"")
            return len(read) == 40

        eventually(has_read_all, "everything is read", within_s=60)
    finally:
        reader.close()
    assert throttles


def test_who_has_too_many_partitions_made_is_refused_until_the_debt_is_paid(
    cluster: OttlaCluster, topic: str
) -> None:
    """In version 7 of CreateTopics; a window's worth of 11 partitions may come at once."""
    assert altered(cluster, {"user": "ANONYMOUS"}, {"controller_mutation_rate": 1.0}).error_code == 0
    with RawClient.to(cluster.bootstrap) as client:
        first = client.ask(create_topic_request(f"{topic}-1", partitions=14))
        assert first.topics[0].error_code is ErrorCode.none, "the last one may lead into debt"
        second = client.ask(create_topic_request(f"{topic}-2", partitions=1))
        assert second.topics[0].error_code is ErrorCode.throttling_quota_exceeded
        assert second.throttle_time > timedelta(0)
        third = client.ask(create_topic_request(f"{topic}-3", partitions=1), within_s=60)
        assert third.topics[0].error_code is ErrorCode.none, "the connection was not read until then"


def test_topics_that_are_created_by_asking_for_them_count_as_well(cluster: OttlaCluster, topic: str) -> None:
    assert altered(cluster, {"user": "ANONYMOUS"}, {"controller_mutation_rate": 1.0}).error_code == 0
    wanted = replace(metadata_request([f"{topic}-by-itself-{n}" for n in range(14)]), allow_auto_topic_creation=True)
    with RawClient.to(cluster.bootstrap) as client:
        answer = client.ask(wanted)
        codes = [each.error_code for each in answer.topics]
        assert set(codes) == {ErrorCode.none, ErrorCode.leader_not_available}
        assert codes.count(ErrorCode.none) <= 12, "one window's worth, and one that leads into debt"
        assert answer.throttle_time > timedelta(0)


def test_a_quota_that_is_removed_holds_no_more(cluster: OttlaCluster, topic: str) -> None:
    throttles: list[float] = []
    client = producer(cluster, "changed", throttles)
    assert altered(cluster, {"client-id": None}, {"producer_byte_rate": 1000}).error_code == 0
    produce(client, topic, 15_000)
    eventually(lambda: client.poll(0.1) is not None and bool(throttles), "the client is throttled")
    assert altered(cluster, {"client-id": None}, {"producer_byte_rate": None}).error_code == 0
    throttles.clear()
    for _ in range(5):
        produce(client, topic, 100_000)
    client.poll(0)
    assert not any(throttles)


def test_an_address_that_connects_too_often_is_held_back_until_it_has_more(cluster: OttlaCluster, topic: str) -> None:
    """Everything here comes from one address, so the quota is removed over a connection from before."""
    with RawClient.to(cluster.bootstrap) as kept:
        kept.ask(ApiVersionsRequest())
        assert altered(cluster, {"ip": LOOPBACK}, {"connection_creation_rate": 1}).error_code == 0

        def is_refused() -> bool:
            with RawClient.to(cluster.bootstrap) as client:
                try:
                    client.ask(ApiVersionsRequest())
                except Closed:
                    return True
            return False

        eventually(is_refused, "a connection is refused")
        removal = alter.EntryData(
            entity=(alter.EntityData(entity_type="ip", entity_name=LOOPBACK),),
            ops=(alter.OpData(key="connection_creation_rate", value=f64(0.0), remove=True),),
        )
        answer = kept.ask(alter.AlterClientQuotasRequest(entries=(removal,), validate_only=False))
        assert answer.entries[0].error_code is ErrorCode.none
    with RawClient.to(cluster.bootstrap) as client:
        client.ask(ApiVersionsRequest())
