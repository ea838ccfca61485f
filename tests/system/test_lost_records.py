"""Disks that lose committed records of one replica: the others have them, so nothing acknowledged is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.wire.record_batch import parse_header
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import produce_request, produced
from tests.support.clients.steady_writer import read_values
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of

pytestmark = pytest.mark.slow

ALL = {1, 2, 3}
BATCHES = 60
LOST = 20
"""The batch that is damaged in the middle of a log; or the number of batches that its end lacks."""
NOBODY = -1
CHECKPOINT = "replication-offset-checkpoint"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    """Nobody leaves an in-sync set by lagging within the time of a test."""
    settings = {"replica.lag.time.max.ms": "600000", "replica.high.watermark.checkpoint.interval.ms": "100"}
    with ReplicatedCluster(tmp_path, broker_settings=settings) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: ReplicatedCluster) -> str:
    """A topic with a replica on each broker, of `BATCHES` records, all of them committed."""
    topic = cluster.create_topic("t")
    with RawClient.to(cluster.brokers[cluster.state_of(topic).leader].bootstrap) as client:
        for number in range(BATCHES):
            request = produce_request(topic, batch_of([value_of(number)]).encode(), acks=-1)
            assert produced(client.ask(request)).error_code == ErrorCode.none.value
    for broker in ALL:
        eventually(lambda at=broker: is_checkpointed(cluster, at, topic), f"broker {broker} knows what is committed")
    return topic


def value_of(number: int) -> bytes:
    return f"{number}:".encode().ljust(500, b"x")


def is_checkpointed(cluster: ReplicatedCluster, broker: int, topic: str) -> bool:
    path = cluster.brokers[broker].data / CHECKPOINT
    return path.exists() and f"{topic} 0 {BATCHES}" in path.read_text().splitlines()


def damage_the_middle(log: Path) -> None:
    position = start_of(log, LOST) + 200
    with log.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def cut_the_end(log: Path) -> None:
    with log.open("r+b") as file:
        file.truncate(start_of(log, BATCHES - LOST))


def start_of(log: Path, number: int) -> int:
    """The position of a batch in a log's file."""
    content, position = log.read_bytes(), 0
    for _ in range(number):
        position += parse_header(memoryview(content)[position:]).size_bytes
    return position


def log_of(cluster: ReplicatedCluster, broker: int, topic: str) -> Path:
    (log,) = (cluster.brokers[broker].data / f"{topic}-0").glob("*.log")
    return log


def check_nothing_is_lost(cluster: ReplicatedCluster, topic: str) -> None:
    cluster.wait_for_equal_logs(topic)
    cluster.wait_for_isr(topic, ALL)
    assert read_values(cluster.bootstrap, topic, up_to=BATCHES) == [(each, value_of(each)) for each in range(BATCHES)]


def end_everything_but_etcd(cluster: ReplicatedCluster) -> None:
    """The controller first, so that it takes nobody out of an in-sync set."""
    cluster.controllers[0].process.kill()
    for broker in ALL:
        cluster.brokers[broker].kill()


def registered_brokers(cluster: ReplicatedCluster) -> list[str]:
    """The keys in etcd of brokers whose leases have not run out."""
    keys = cluster.etcd.etcdctl("get", "--prefix", "/ottla/", "--keys-only").split()
    return [key for key in keys if "/members/broker/" in key]


@pytest.mark.parametrize("damage", [damage_the_middle, cut_the_end])
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_an_in_sync_replica_copies_again_what_its_disk_has_lost(
    cluster: ReplicatedCluster, topic: str, leads: bool, damage: Callable[[Path], None]
) -> None:
    """It comes back within its lease, so that it is in sync, and perhaps elected, before anybody knows."""
    leader = cluster.state_of(topic).leader
    hurt = leader if leads else min(ALL - {leader})
    cluster.brokers[hurt].kill()
    damage(log_of(cluster, hurt, topic))
    cluster.brokers[hurt].start()
    check_nothing_is_lost(cluster, topic)


@pytest.mark.parametrize("damage", [damage_the_middle, cut_the_end])
def test_a_leader_whose_disk_lost_records_while_all_were_away_makes_way(
    cluster: ReplicatedCluster, topic: str, damage: Callable[[Path], None]
) -> None:
    """All replicas count as in sync when they come back together, and the former leader is elected first."""
    hurt = cluster.state_of(topic).leader
    end_everything_but_etcd(cluster)
    damage(log_of(cluster, hurt, topic))
    for broker in ALL:
        cluster.brokers[broker].process.start()
    cluster.controllers[0].start()
    check_nothing_is_lost(cluster, topic)


def test_a_replica_that_lost_records_waits_for_others_when_it_is_back_first(
    cluster: ReplicatedCluster, topic: str
) -> None:
    """The controller sees nobody else at that moment, and would take the others out of the in-sync set.

    All leases have run out before the controller is back. If it saw one run out after the other, the last broker
    would be the only one in sync, which is the next test's subject.
    """
    hurt = cluster.state_of(topic).leader
    end_everything_but_etcd(cluster)
    cut_the_end(log_of(cluster, hurt, topic))
    eventually(lambda: not registered_brokers(cluster), "no broker is registered")
    cluster.controllers[0].start()
    cluster.brokers[hurt].start()
    eventually(lambda: cluster.state_of(topic, broker=hurt).leader == NOBODY, "it is not elected")
    for broker in ALL - {hurt}:
        cluster.brokers[broker].start()
    check_nothing_is_lost(cluster, topic)


@pytest.mark.parametrize("damage", [damage_the_middle, cut_the_end])
def test_the_last_one_in_sync_that_lost_records_has_nobody_cut_who_has_them(
    cluster: ReplicatedCluster, topic: str, damage: Callable[[Path], None]
) -> None:
    """The others have left the in-sync set, so nobody knows that they have everything; but their logs are longer."""
    hurt = cluster.state_of(topic).leader
    others = sorted(ALL - {hurt})
    for broker in others:
        cluster.brokers[broker].kill()
    cluster.wait_for_isr(topic, {hurt})
    cluster.brokers[hurt].kill()
    damage(log_of(cluster, hurt, topic))
    cluster.brokers[hurt].start()
    eventually(lambda: cluster.state_of(topic, broker=hurt).leader == hurt, "it is elected, as nobody else can be")
    with RawClient.to(cluster.brokers[hurt].bootstrap) as client:
        refused = produced(client.ask(produce_request(topic, batch_of([b"too early"]).encode(), acks=-1)))
    assert refused.error_code == ErrorCode.not_leader_or_follower.value
    for broker in others:
        cluster.brokers[broker].start()
    check_nothing_is_lost(cluster, topic)


def test_a_loss_is_known_after_further_restarts(cluster: ReplicatedCluster, topic: str) -> None:
    """Recovery finds the damage once; from then on the log looks sound."""
    hurt = cluster.state_of(topic).leader
    others = sorted(ALL - {hurt})
    for broker in others:
        cluster.brokers[broker].kill()
    cluster.wait_for_isr(topic, {hurt})
    cluster.brokers[hurt].kill()
    damage_the_middle(log_of(cluster, hurt, topic))
    cluster.brokers[hurt].start()
    eventually(lambda: cluster.state_of(topic, broker=hurt).leader == hurt, "it leads, as nobody else can")
    cluster.brokers[hurt].stop()
    cluster.brokers[hurt].start()
    eventually(lambda: cluster.state_of(topic, broker=hurt).leader == hurt, "it leads again")
    for broker in others:
        cluster.brokers[broker].start()
    check_nothing_is_lost(cluster, topic)
