"""Consumers read from the replica in their own rack (KIP-392), and go on elsewhere when it is gone."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import produce_request, produced
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of, read_values
from tests.support.messages.sparse_request import sparse_request

pytestmark = pytest.mark.slow

RACKS = {1: "a", 2: "b", 3: "c"}
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
VERSION_BY_NAME = 12
PLENTY_BYTES = 1 << 20
PLENTY_MS = 120_000
NO_REPLICA = -1
CONSUMER_SETTINGS = {"group.id": "none", "enable.auto.commit": "false"}
"""There is no group coordinator that could store what is read."""
DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    settings = {"replica.selector.class": RACK_AWARE}
    directory: Path = tmp_path_factory.mktemp("racks")
    with ReplicatedCluster(directory, broker_settings=settings, racks=RACKS) as cluster:
        yield cluster


def publish(cluster: ReplicatedCluster, topic: str, *values: bytes) -> None:
    """Appends one batch; a leader may not have heard yet that it is one."""

    def is_appended() -> bool:
        leader = cluster.state_of(topic).leader
        with RawClient.to(cluster.brokers[leader].bootstrap) as client:
            error = produced(client.ask(produce_request(topic, batch_of(values).encode()))).error_code
        assert error in (ErrorCode.none, ErrorCode.not_leader_or_follower)
        return error is ErrorCode.none

    eventually(is_appended, f"{topic} takes a batch", within_s=DEADLINE_S)


def fetch(topic: str, offset: int, *, rack: str = "", version: int = VERSION_BY_NAME, **fields: Any) -> Any:
    wanted = [{"partition_max_bytes": PLENTY_BYTES, "fetch_offset": offset}]
    named = {"rack_id": rack} if rack else {}
    return sparse_request(
        "fetch",
        version,
        **{"max_wait": 0, "min_bytes": 1, "max_bytes": PLENTY_BYTES, **named, **fields},
        topics=[{"topic": topic, "partitions": wanted}],
    )


def fetched(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def test_the_leader_names_the_replica_in_the_consumers_rack(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("named")
    publish(cluster, topic, b"x")
    leader = cluster.state_of(topic).leader
    with RawClient.to(cluster.brokers[leader].bootstrap) as client:
        for broker, rack in RACKS.items():
            partition = fetched(client.ask(fetch(topic, 0, rack=rack, max_wait=PLENTY_MS)))
            assert partition.preferred_read_replica == (NO_REPLICA if broker == leader else broker)
            assert bool(partition.records) == (broker == leader)
        for rack in ("", "elsewhere"):
            partition = fetched(client.ask(fetch(topic, 0, rack=rack)))
            assert (partition.preferred_read_replica, bool(partition.records)) == (NO_REPLICA, True)


def test_a_follower_serves_consumers_up_to_the_high_watermark(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("served")
    leader = cluster.state_of(topic).leader
    follower = next(number for number in RACKS if number != leader)
    request = fetch(topic, 0, rack=RACKS[follower], max_wait=PLENTY_MS)
    with RawClient.to(cluster.brokers[follower].bootstrap) as client:
        client.send_request(request)
        publish(cluster, topic, b"x")
        answered = client.read_frame()
        assert answered
        partition = fetched(client.ask(request))
        assert [value for _, value in read_values(partition.records)] == [b"x"]
        assert partition.preferred_read_replica == NO_REPLICA
        old = fetched(client.ask(fetch(topic, 0, version=10)))
        assert old.error_code is ErrorCode.not_leader_or_follower, "who knows nothing of racks reads from the leader"
        beyond = fetched(client.ask(fetch(topic, 7)))
        assert beyond.error_code is ErrorCode.offset_out_of_range


def test_every_replica_describes_the_producers_that_it_knows(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("producers")
    leader = cluster.state_of(topic).leader
    sequenced = replace(batch_of([b"a", b"b"]), producer_id=987_654, producer_epoch=3, base_sequence=0)
    publish(cluster, topic, b"x")
    with RawClient.to(cluster.brokers[leader].bootstrap) as client:
        assert produced(client.ask(produce_request(topic, sequenced.encode()))).error_code is ErrorCode.none
    wanted = [{"name": topic, "partition_indexes": [0]}]
    for broker in RACKS:
        with RawClient.to(cluster.brokers[broker].bootstrap) as client:
            (answer,) = client.ask(sparse_request("describe_producers", 0, topics=wanted)).topics[0].partitions
        assert answer.error_code is ErrorCode.none, f"broker {broker}: {answer.error_message}"
        assert [(each.producer_id, each.last_sequence) for each in answer.active_producers] == [(987_654, 1)]


def test_a_consumer_with_a_rack_reads_from_the_follower_there(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("nearest")
    leader = cluster.state_of(topic).leader
    follower = next(number for number in RACKS if number != leader)
    fetches: dict[int, int] = {}

    def count_fetches(statistics: str) -> None:
        for seen in json.loads(statistics)["brokers"].values():
            fetches[seen["nodeid"]] = seen["req"].get("Fetch", 0)

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            **CONSUMER_SETTINGS,
            "client.rack": RACKS[follower],
            "statistics.interval.ms": 100,
            "stats_cb": count_fetches,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen: list[bytes] = []

    def has_read(count: int) -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen.append(message.value() or b"")
        return len(seen) >= count

    try:
        for number in range(10):
            publish(cluster, topic, str(number).encode())
            eventually(lambda: has_read(number + 1), f"record {number} is read", within_s=DEADLINE_S)  # noqa: B023
        assert seen == [str(number).encode() for number in range(10)]
        eventually(lambda: has_read(0) and fetches.get(follower, 0) > 5, "the follower is asked", within_s=DEADLINE_S)
        from_leader = fetches[leader]
        publish(cluster, topic, b"last")
        eventually(lambda: has_read(11), "the last record is read", within_s=DEADLINE_S)
        assert fetches[leader] == from_leader, "the leader is asked only to learn where to read"
    finally:
        consumer.close()


def test_a_consumer_goes_on_from_the_leader_when_the_follower_is_gone(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("goes-on")
    leader = cluster.state_of(topic).leader
    follower = next(number for number in RACKS if number != leader)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **CONSUMER_SETTINGS, "client.rack": RACKS[follower]})
    consumer.assign([TopicPartition(topic, 0, 0)])

    def next_value() -> list[bytes]:
        message = consumer.poll(0.2)
        return [] if message is None or message.error() else [message.value() or b""]

    try:
        publish(cluster, topic, b"before")
        assert eventually(next_value, "the first record is read", within_s=DEADLINE_S) == [b"before"]
        cluster.brokers[follower].kill()
        publish(cluster, topic, b"after")
        assert eventually(next_value, "the second record is read", within_s=DEADLINE_S) == [b"after"]
    finally:
        consumer.close()
