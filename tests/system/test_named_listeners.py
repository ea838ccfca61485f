"""Brokers with several listeners: a client hears of the addresses of the listener that it came by."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.free_ports import free_port

pytestmark = pytest.mark.slow

HOST = "127.0.0.2"
RECORDS = 200
WITHIN_S = 30


@pytest.fixture
def outside() -> dict[int, str]:
    """Where each broker is reached through its second listener."""
    return {number: f"{HOST}:{free_port()}" for number in (1, 2)}


@pytest.fixture
def cluster(tmp_path: Path, outside: dict[int, str]) -> Iterator[ReplicatedCluster]:
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "outside",
    }
    listeners = {number: [f"outside://{address}"] for number, address in outside.items()}
    with ReplicatedCluster(tmp_path, brokers=2, broker_settings=settings, more_listeners=listeners) as cluster:
        yield cluster


def addresses_told(bootstrap: str) -> dict[int, str]:
    brokers = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=WITHIN_S).brokers
    return {number: f"{broker.host}:{broker.port}" for number, broker in brokers.items()}


def test_clients_work_through_each_listener_and_hear_of_its_addresses_alone(
    cluster: ReplicatedCluster, outside: dict[int, str]
) -> None:
    assert addresses_told(cluster.brokers[1].bootstrap) == {
        number: broker.bootstrap for number, broker in cluster.brokers.items()
    }
    assert addresses_told(outside[2]) == outside

    cluster.create_topic("flights", partitions=4)
    producer = Producer({"bootstrap.servers": outside[1], "acks": "all"})
    for number in range(RECORDS):
        producer.produce("flights", str(number))
    assert producer.flush(WITHIN_S) == 0

    # Both replicas of each partition have them, so brokers reach each other by the listener that they are to use.
    for index in range(4):
        cluster.wait_for_isr("flights", {1, 2}, index=index)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("flights", index, OFFSET_BEGINNING) for index in range(4)])
        read = set()
        while len(read) < RECORDS:
            message = consumer.poll(WITHIN_S)
            assert message is not None
            assert message.error() is None
            read.add(message.value())
    finally:
        consumer.close()
    assert read == {str(number).encode() for number in range(RECORDS)}
