"""Transactions through a link: they count as at the source, and a promotion ends those that are open."""

import os
import signal
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

TOPIC = "payments"
READ_DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    with OttlaCluster(tmp_path_factory.mktemp("source") / "cluster", brokers=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    arguments = ("--set", "broker:member.lease.ttl.ms=3000")  # a broker that is killed is out of the way soon
    with OttlaCluster(tmp_path_factory.mktemp("target") / "cluster", brokers=3, arguments=arguments) as cluster:
        yield cluster


def leader_of(cluster: OttlaCluster) -> int:
    """Who leads as a broker has heard, who may be on the way; -1 for nobody."""
    found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(TOPIC, timeout=10)
    return int(found.topics[TOPIC].partitions[0].leader)


def begun(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(60)
    return producer


def write(producer: Producer, numbers: range) -> None:
    """Writes numbered records in a transaction that stays open."""
    producer.begin_transaction()
    for number in numbers:
        producer.produce(TOPIC, str(number))
    assert producer.flush(60) == 0


def committed(cluster: OttlaCluster, count: int) -> list[int]:
    """What a reader of committed records gets, which has to be no less and no more than so many."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    values: list[int] = []
    is_at_end = False
    deadline = time.monotonic() + READ_DEADLINE_S
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        while time.monotonic() < deadline and not (is_at_end and len(values) >= count):
            message = consumer.poll(0.2)
            if message is None:
                continue
            is_at_end = message.error() is not None
            if not is_at_end:
                values.append(int(message.value() or b""))
    finally:
        consumer.close()
    return values


def test_a_target_shows_what_is_committed_and_a_promotion_ends_what_is_open(
    source: OttlaCluster, target: OttlaCluster
) -> None:
    here, there = Ottla(target.bootstrap), Ottla(source.bootstrap)
    there.run("topic", "create", TOPIC)
    producer, other = begun(source.bootstrap, "first"), begun(source.bootstrap, "second")
    write(producer, range(10))
    producer.commit_transaction(60)
    write(producer, range(10, 20))
    producer.abort_transaction(60)
    write(other, range(20, 30))
    write(producer, range(30, 40))
    producer.commit_transaction(60)
    here.run("mirror", "link", "create", "west", "--source", source.bootstrap, "--topics", TOPIC, "--wait")
    here.run("mirror", "link", "status", "west", "--wait")
    here.run("mirror", "verify", TOPIC, "--source", source.bootstrap, "--linked", "--wait", "30")
    assert committed(target, 10) == list(range(10))
    assert here.json("transaction", "find-hanging") == []

    former = leader_of(target)
    (leader,) = [each for each in target.refresh() if (each.role, each.id) == ("broker", former)]
    os.kill(leader.pid, signal.SIGKILL)
    eventually(lambda: leader_of(target) not in {former, -1}, "another broker leads", within_s=60)
    write(producer, range(40, 50))
    producer.commit_transaction(60)
    here.run("mirror", "link", "status", "west", "--wait")
    here.run("mirror", "verify", TOPIC, "--source", source.bootstrap, "--linked", "--wait", "30")
    assert committed(target, 10) == list(range(10))

    here.run("mirror", "link", "promote", "west", "--yes")
    kept = [*range(10), *range(30, 50)]
    assert committed(target, len(kept)) == kept
    successor = begun(target.bootstrap, "first")
    write(successor, range(50, 60))
    successor.commit_transaction(60)
    assert committed(target, len(kept) + 10) == [*kept, *range(50, 60)]
    other.commit_transaction(60)
    assert committed(source, 40) == [*range(10), *range(20, 50)]
