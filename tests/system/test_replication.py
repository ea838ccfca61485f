"""Three brokers replicate: what is acknowledged survives crashes, pauses, restarts and the loss of etcd.

Real processes on loopback, one etcd and one controller. The in-sync set changes in two ways here: by the controller,
when a broker's lease ends, and by the leader, when a follower lags; tests of the second kind have long leases.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import (
    EARLIEST,
    LATEST,
    delete_records_request,
    end_offset,
    list_offsets_request,
    produce_request,
    produced,
)
from tests.support.clients.steady_writer import SteadyWriter, read_values
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.clusters.service_process import MEMBER_LEASE_TTL_MS
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of

pytestmark = pytest.mark.slow

ALL = {1, 2, 3}
LEADER_ONLY = 1
LAG_MAX_MS = 1000
LONG_LEASE_MS = 60_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(tmp_path) as cluster:
        yield cluster


def produce(
    cluster: ReplicatedCluster, broker: int, topic: str, *values: bytes, acks: int = -1, partition: int = 0
) -> ErrorCode:
    """Has a broker append one batch, and returns the code of its answer."""
    request = produce_request(topic, batch_of(values).encode(), acks=acks, partition=partition)
    with RawClient.to(cluster.brokers[broker].bootstrap) as client:
        return produced(client.ask(request)).error_code


def test_every_replica_gets_the_same_bytes(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t", partitions=3)
    leaders = {index: cluster.state_of(topic, index).leader for index in range(3)}

    for number in range(20):
        for index, leader in leaders.items():
            value = f"{index}:{number}".encode()
            assert produce(cluster, leader, topic, value, partition=index) is ErrorCode.none

    assert set(leaders.values()) == ALL
    for index in leaders:
        assert cluster.wait_for_equal_logs(topic, index)
        assert [value for _, value in read_values(cluster.bootstrap, topic, index, up_to=20)] == [
            f"{index}:{number}".encode() for number in range(20)
        ]


def test_a_killed_leader_is_replaced_and_comes_back_as_a_follower(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.wait_for_acknowledgements(100)
        for _ in range(2):
            leader = cluster.state_of(topic).leader
            cluster.brokers[leader].kill()
            cluster.wait_for_other_leader(topic, leader)
            writer.wait_for_acknowledgements(100)
            cluster.brokers[leader].start()
            cluster.wait_for_isr(topic, ALL)
            writer.wait_for_acknowledgements(100)

    assert not writer.failures
    writer.check_complete()
    assert cluster.wait_for_equal_logs(topic)
    print(f"longest pause {writer.longest_pause_s():.2f} s with leases of {MEMBER_LEASE_TTL_MS} ms")


def test_what_only_a_dead_leader_had_is_cut_off_when_it_comes_back(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t")
    leader = cluster.state_of(topic).leader
    followers = ALL - {leader}
    assert produce(cluster, leader, topic, b"kept") is ErrorCode.none

    for follower in followers:
        cluster.pause(follower)
    for value in (b"seen by a fetch that was under way", b"lost", b"lost as well"):
        assert produce(cluster, leader, topic, value, acks=LEADER_ONLY) is ErrorCode.none
    cluster.brokers[leader].kill()
    for follower in followers:
        cluster.resume(follower)
    successor = cluster.wait_for_other_leader(topic, leader)
    eventually(lambda: produce(cluster, successor, topic, b"after") is ErrorCode.none, "the successor takes records")
    cluster.brokers[leader].start()

    cluster.wait_for_isr(topic, ALL)
    log = cluster.wait_for_equal_logs(topic)
    assert (b"kept" in log, b"lost" in log, b"after" in log) == (True, False, True)


def test_a_paused_leader_is_replaced_and_steps_down_when_it_goes_on(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        for _ in range(2):
            leader = cluster.state_of(topic).leader
            cluster.pause(leader)
            cluster.wait_for_other_leader(topic, leader)
            writer.wait_for_acknowledgements(100)
            cluster.resume(leader)
            cluster.wait_for_isr(topic, ALL)
            writer.wait_for_acknowledgements(100)

    assert not writer.failures
    writer.check_complete()
    cluster.wait_for_equal_logs(topic)


def test_deleted_records_are_deleted_on_every_replica(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t")
    leader = cluster.state_of(topic).leader
    for _ in range(5):
        assert produce(cluster, leader, topic, b"v", b"w") is ErrorCode.none

    (answer,) = cluster.ask(delete_records_request(topic, 7), leader).topics[0].partitions
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 7)

    cluster.brokers[leader].stop()
    successor = cluster.wait_for_other_leader(topic, leader)
    (answer,) = cluster.ask(list_offsets_request(topic, EARLIEST), successor).topics[0].partitions
    assert (answer.error_code, answer.offset) == (ErrorCode.none, 7)


def test_too_few_replicas_refuse_what_must_be_on_all(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    leader = cluster.state_of(topic).leader
    others = sorted(ALL - {leader})
    for other in others:
        cluster.brokers[other].kill()
    cluster.wait_for_isr(topic, {leader})

    assert produce(cluster, leader, topic, b"refused") is ErrorCode.not_enough_replicas
    assert produce(cluster, leader, topic, b"taken", acks=LEADER_ONLY) is ErrorCode.none
    (end,) = cluster.ask(list_offsets_request(topic, LATEST), leader).topics[0].partitions
    assert end.offset == 0, "the high watermark waits for a second replica"

    cluster.brokers[others[0]].start()
    cluster.wait_for_isr(topic, {leader, others[0]})
    # Another broker may have told of it before the leader takes note.
    eventually(
        lambda: produce(cluster, leader, topic, b"taken again") is ErrorCode.none, "a record for both is taken"
    )
    with RawClient.to(cluster.brokers[leader].bootstrap) as client:
        assert end_offset(client, topic) == 2


def test_a_follower_that_lags_leaves_the_in_sync_set_and_joins_again(tmp_path: Path) -> None:
    settings = {"member.lease.ttl.ms": str(LONG_LEASE_MS), "replica.lag.time.max.ms": str(LAG_MAX_MS)}
    with ReplicatedCluster(tmp_path, broker_settings=settings) as cluster:
        topic = cluster.create_topic("t")
        leader = cluster.state_of(topic).leader
        laggard = min(ALL - {leader})
        with SteadyWriter(cluster.bootstrap, topic) as writer:
            writer.wait_for_acknowledgements(50)
            cluster.pause(laggard)
            state = cluster.wait_for_isr(topic, ALL - {laggard})
            writer.wait_for_acknowledgements(50)
            cluster.resume(laggard)
            cluster.wait_for_isr(topic, ALL)
            writer.wait_for_acknowledgements(50)
        assert not writer.failures
        writer.check_complete()
        assert state.leader_epoch == cluster.state_of(topic).leader_epoch
        cluster.wait_for_equal_logs(topic)


def test_a_rolling_restart_fails_no_request(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        for broker in cluster.brokers.values():
            writer.wait_for_acknowledgements(100)
            broker.stop()
            writer.wait_for_acknowledgements(100)
            broker.start()
            cluster.wait_for_isr(topic, ALL)
        writer.wait_for_acknowledgements(100)

    assert not writer.failures
    writer.check_complete()
    cluster.wait_for_equal_logs(topic)
    print(f"longest pause {writer.longest_pause_s():.2f} s")


def test_leaders_go_on_while_etcd_is_away_and_after_it_is_back(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    before = cluster.state_of(topic)
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        cluster.etcd.stop()
        lapsed_at_s = time.monotonic() + 2 * MEMBER_LEASE_TTL_MS / 1000
        eventually(lambda: time.monotonic() > lapsed_at_s, "all leases have lapsed by the brokers' clocks")
        writer.wait_for_acknowledgements(100)
        cluster.etcd.start()
        writer.wait_for_acknowledgements(100)
        for number in cluster.brokers:
            eventually(
                lambda number=number: b'"resumed": true' in cluster.brokers[number].process.log.read_bytes(),
                f"broker {number} has its lease again",
            )
        writer.wait_for_acknowledgements(100)

    assert not writer.failures
    writer.check_complete()
    assert cluster.state_of(topic) == before
    assert writer.longest_pause_s() < MEMBER_LEASE_TTL_MS / 1000


def test_a_leader_that_nobody_follows_stops_serving_when_its_lease_has_lapsed(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t")
    leader = cluster.state_of(topic).leader
    followers = ALL - {leader}
    cluster.etcd.pause()
    try:
        for follower in followers:
            cluster.pause(follower)
        eventually(
            lambda: produce(cluster, leader, topic, b"late", acks=LEADER_ONLY) is ErrorCode.not_leader_or_follower,
            "the leader has stepped down",
        )
    finally:
        for follower in followers:
            cluster.resume(follower)
        cluster.etcd.resume()
    eventually(lambda: cluster.state_of(topic).isr == ALL, "everybody is in sync again")
    cluster.wait_for_equal_logs(topic)


def test_the_death_of_the_controller_disturbs_no_producer(tmp_path: Path) -> None:
    with ReplicatedCluster(tmp_path, controllers=2) as cluster:
        topic = cluster.create_topic("t")
        with SteadyWriter(cluster.bootstrap, topic) as writer:
            writer.wait_for_acknowledgements(50)
            for controller in cluster.controllers:
                controller.process.kill()
                writer.wait_for_acknowledgements(200)
                controller.start()
            leader = cluster.state_of(topic).leader
            cluster.brokers[leader].kill()
            cluster.wait_for_other_leader(topic, leader)
            writer.wait_for_acknowledgements(50)
        assert not writer.failures
        writer.check_complete()
