"""Topics that follow those of another cluster, offset by offset, between two clusters of real processes."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from ottla_core.client.links import delete_link
from ottla_core.cluster.controller_rpc.link_api import LinkedPartitionState
from ottla_core.errors import KafkaError
from ottla_core.promotion import PROMOTION_LEAP
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import (
    delete_records_request,
    produce_request,
    produced,
)
from tests.support.clusters.linked_clusters import LINK, Target
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of

pytestmark = pytest.mark.slow

COUNT = 2000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(tmp_path_factory.mktemp("source"), brokers=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, source: ReplicatedCluster) -> Iterator[Target]:
    with ReplicatedCluster(tmp_path_factory.mktemp("target"), brokers=3) as cluster:
        target = Target(cluster, source.bootstrap)
        target.create_link()
        yield target


def write(bootstrap: str, topic: str, count: int, *, first: int = 0, codec: str = "lz4") -> None:
    """Writes numbered records with keys."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 2})
    for number in range(first, first + count):
        producer.produce(topic, key=str(number % 10), value=str(number), partition=0)
    assert producer.flush(60) == 0


def refusal(bootstrap: str, topic: str) -> ErrorCode:
    """What a broker answers to a produce request."""
    with RawClient.to(bootstrap) as client:
        answer = produced(client.ask(produce_request(topic, batch_of([b"x"]).encode())))
    return ErrorCode(answer.error_code)


def test_a_linked_topic_has_the_bytes_of_its_source_on_all_replicas(
    source: ReplicatedCluster, target: Target
) -> None:
    source.create_topic("bytes")
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        write(source.bootstrap, "bytes", COUNT, first=number * COUNT, codec=codec)
    target.follow("bytes", replication_factor=3)
    target.wait_for_end("bytes", 5 * COUNT)
    assert target.cluster.wait_for_equal_logs("bytes") == source.log_bytes(1, "bytes")
    write(source.bootstrap, "bytes", COUNT, first=5 * COUNT)
    status = target.wait_for_end("bytes", 6 * COUNT)
    assert (status.state, status.lag, status.records_missed) == (LinkedPartitionState.RUNNING, 0, 0)
    assert target.cluster.wait_for_equal_logs("bytes") == source.log_bytes(1, "bytes")


def test_an_empty_log_begins_where_the_source_has_its_first_record(source: ReplicatedCluster, target: Target) -> None:
    source.create_topic("begun-late")
    write(source.bootstrap, "begun-late", 10)
    with RawClient.to(source.bootstrap) as client:
        (answer,) = client.ask(delete_records_request("begun-late", 10)).topics[0].partitions
    assert ErrorCode(answer.error_code) is ErrorCode.none
    write(source.bootstrap, "begun-late", 10, first=10)
    target.follow("begun-late", replication_factor=3)
    status = target.wait_for_end("begun-late", 20)
    assert (status.state, status.records_missed) == (LinkedPartitionState.RUNNING, 0)
    consumer = Consumer({"bootstrap.servers": target.cluster.bootstrap, "group.id": "begun-late"})
    try:
        assert consumer.get_watermark_offsets(TopicPartition("begun-late", 0), timeout=30) == (10, 20)
    finally:
        consumer.close()


def test_clients_can_read_a_linked_topic_and_not_change_it_until_it_is_promoted(
    source: ReplicatedCluster, target: Target
) -> None:
    source.create_topic("read-only")
    write(source.bootstrap, "read-only", COUNT)
    target.follow("read-only", replication_factor=3)
    target.wait_for_end("read-only", COUNT)
    leader = target.cluster.brokers[target.cluster.state_of("read-only").leader].bootstrap
    assert refusal(leader, "read-only") is ErrorCode.policy_violation
    with RawClient.to(leader) as client:
        (answer,) = client.ask(delete_records_request("read-only", 5)).topics[0].partitions
        assert answer.error_code is ErrorCode.policy_violation
    with pytest.raises(KafkaError, match="promote or delete them first"):
        target.ask(delete_link(LINK))

    group = {"bootstrap.servers": source.bootstrap, "group.id": "moving", "enable.auto.commit": False}
    read = read_numbers(group, "read-only", 0, COUNT // 2)
    (promoted,) = target.promote("read-only")
    leader_epoch = target.cluster.state_of("read-only").leader_epoch
    assert promoted.leader_epoch == leader_epoch >= PROMOTION_LEAP
    write(target.cluster.bootstrap, "read-only", COUNT, first=COUNT)
    write(source.bootstrap, "read-only", 1, first=-1)
    group["bootstrap.servers"] = target.cluster.bootstrap
    read += read_numbers(group, "read-only", COUNT // 2, 2 * COUNT)
    assert read == list(range(2 * COUNT))
    target.cluster.wait_for_equal_logs("read-only")


def read_numbers(settings: dict[str, object], topic: str, begin: int, end: int) -> list[int]:
    """The numbers at offsets of a topic."""
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, begin)])
    found: list[int] = []

    def complete() -> bool:
        for message in consumer.consume(end - begin - len(found), 1):
            assert message.error() is None, message.error()
            found.append(int(message.value() or b""))
        return len(found) == end - begin

    try:
        eventually(complete, f"{topic} is read up to {end}", within_s=60)
    finally:
        consumer.close()
    return found
