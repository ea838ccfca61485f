"""Machines that lose power: what was not fsynced is gone, and a broker that comes back with less must not lead.

A power failure is played on a broker that was killed: its logs lose their last records, as far as nothing had asked
for an fsync, and its shutdown record is of another boot.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import produce_request, produced
from tests.support.clients.steady_writer import read_values
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.clusters.service_process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of

pytestmark = pytest.mark.slow

ALL = {1, 2, 3}
RECORDS = 30


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(tmp_path) as cluster:
        yield cluster


def produce(cluster: ReplicatedCluster, broker: int, topic: str, value: bytes) -> ErrorCode:
    with RawClient.to(cluster.brokers[broker].bootstrap) as client:
        return produced(client.ask(produce_request(topic, batch_of([value]).encode(), acks=-1))).error_code


def lose_power(broker: BrokerProcess, topic: str, *, kept: float = 0.5) -> None:
    """What a power failure leaves of a broker that was killed: the first half of the log, or another part of it."""
    (log,) = (broker.data / f"{topic}-0").glob("*.log")
    with log.open("r+b") as file:
        file.truncate(int(log.stat().st_size * kept))
    record = broker.data / "shutdown-record"
    record.write_text(record.read_text().replace("boot.id=", "boot.id=another-"))


def fill(cluster: ReplicatedCluster, topic: str) -> list[bytes]:
    leader = cluster.state_of(topic).leader
    values = [b"%d" % number for number in range(RECORDS)]
    for value in values:
        assert produce(cluster, leader, topic, value) is ErrorCode.none
    cluster.wait_for_equal_logs(topic)
    return values


def test_who_lost_power_waits_for_those_who_have_everything(cluster: ReplicatedCluster) -> None:
    # In whatever order the leases end, whoever leaves the in-sync set stays eligible, as the set is too small then.
    topic = cluster.create_topic("t", configs={"min.insync.replicas": "3"})
    values = fill(cluster, topic)
    for broker in cluster.brokers.values():
        broker.kill()
    for number in (1, 2):
        lose_power(cluster.brokers[number], topic)
    for number in (1, 2):
        cluster.brokers[number].start()
    eventually(
        lambda: cluster.state_of(topic, broker=1).leader == -1, "nobody leads who may lack records", within_s=90
    )
    assert produce(cluster, 1, topic, b"too early") in {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
    }

    cluster.brokers[3].start()
    cluster.wait_for_isr(topic, ALL)
    assert cluster.state_of(topic).leader == 3
    assert [value for _, value in read_values(cluster.bootstrap, topic, 0, up_to=RECORDS)] == values
    cluster.wait_for_equal_logs(topic)


def test_brokers_that_were_merely_killed_have_everything_when_they_are_back(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t")
    values = fill(cluster, topic)
    for broker in cluster.brokers.values():
        broker.kill()
    for broker in cluster.brokers.values():
        broker.start()
    cluster.wait_for_isr(topic, ALL)
    assert [value for _, value in read_values(cluster.bootstrap, topic, 0, up_to=RECORDS)] == values


@pytest.mark.parametrize("intact", ALL)
def test_where_all_have_lost_power_the_longest_log_counts(cluster: ReplicatedCluster, intact: int) -> None:
    """In whatever order leases ended and brokers come back, which says nothing of what their disks have lost."""
    topic = cluster.create_topic("t")
    values = fill(cluster, topic)
    for broker in cluster.brokers.values():
        broker.kill()
    for number, broker in cluster.brokers.items():
        lose_power(broker, topic, kept=1.0 if number == intact else number / 5)
    for broker in cluster.brokers.values():
        broker.process.start()
    cluster.wait_for_isr(topic, ALL)
    assert [value for _, value in read_values(cluster.bootstrap, topic, 0, up_to=RECORDS)] == values
    leader = cluster.state_of(topic).leader
    assert produce(cluster, leader, topic, b"and it goes on") is ErrorCode.none
    assert b"and it goes on" in cluster.wait_for_equal_logs(topic)
