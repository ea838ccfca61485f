"""Disks that fail for good: others take over, nothing acknowledged is lost, and a restart brings the replica back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from ottla.local.health import GrpcHealth
from ottla_core.rpc_identity import BROKER, RpcIdentity
from tests.faults.faulty_disk import BROKEN, UNREADABLE, UNSYNCED
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import create_topic_request, produce_request, produced
from tests.support.clients.steady_writer import SteadyWriter, read_values
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of

pytestmark = pytest.mark.slow

ALL = {1, 2, 3}
EVERY_RECORD = {"flush.messages": "1"}
MODES = pytest.mark.parametrize(("mode", "configs"), [(UNSYNCED, EVERY_RECORD), (BROKEN, {})])
"""With Kafka's defaults nothing is fsynced before a segment is full, so there it takes a refused write to notice."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    """Nobody leaves an in-sync set by lagging within the time of a test."""
    settings = {"replica.lag.time.max.ms": "600000"}
    with ReplicatedCluster(tmp_path, broker_settings=settings, faulty_disks=True) as cluster:
        yield cluster


def restart(cluster: ReplicatedCluster, broker: int) -> None:
    cluster.trouble_disk(broker, "")
    cluster.brokers[broker].kill()
    cluster.brokers[broker].start()


@MODES
def test_another_replica_leads_when_the_leader_s_disk_fails(
    cluster: ReplicatedCluster, mode: str, configs: dict[str, str]
) -> None:
    topic = cluster.create_topic("t", configs={"min.insync.replicas": "2", **configs})
    failed = cluster.state_of(topic).leader
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.wait_for_acknowledgements(100)
        cluster.trouble_disk(failed, mode)
        cluster.wait_for_isr(topic, ALL - {failed})
        writer.wait_for_acknowledgements(300)
        restart(cluster, failed)
        cluster.wait_for_isr(topic, ALL)
    assert not writer.failures
    writer.check_complete()
    cluster.wait_for_equal_logs(topic)


def test_another_replica_leads_when_the_leader_s_disk_cannot_be_read(cluster: ReplicatedCluster) -> None:
    topic = cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    failed = cluster.state_of(topic).leader
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.wait_for_acknowledgements(100)
        cluster.trouble_disk(failed, UNREADABLE)
        cluster.wait_for_isr(topic, ALL - {failed})
        writer.wait_for_acknowledgements(300)
        restart(cluster, failed)
        cluster.wait_for_isr(topic, ALL)
    assert not writer.failures
    writer.check_complete()
    cluster.wait_for_equal_logs(topic)


@MODES
def test_a_follower_leaves_the_in_sync_set_when_its_disk_fails(
    cluster: ReplicatedCluster, mode: str, configs: dict[str, str]
) -> None:
    topic = cluster.create_topic("t", configs={"min.insync.replicas": "2", **configs})
    leader = cluster.state_of(topic).leader
    failed = min(ALL - {leader})
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        cluster.trouble_disk(failed, mode)
        cluster.wait_for_isr(topic, ALL - {failed})
        writer.wait_for_acknowledgements(300)
    assert cluster.state_of(topic).leader == leader
    restart(cluster, failed)
    cluster.wait_for_isr(topic, ALL)
    assert not writer.failures
    writer.check_complete()


def produce(cluster: ReplicatedCluster, broker: int, topic: str, value: bytes) -> ErrorCode:
    with RawClient.to(cluster.brokers[broker].bootstrap) as client:
        return produced(client.ask(produce_request(topic, batch_of([value]).encode(), acks=-1))).error_code


def test_the_only_replica_goes_on_serving_readers(cluster: ReplicatedCluster) -> None:
    (created,) = cluster.ask(create_topic_request("t", replication_factor=1, configs=EVERY_RECORD)).topics
    assert created.error_code is ErrorCode.none
    leader = eventually(lambda: cluster.state_of("t").leader, "it is led")
    eventually(lambda: produce(cluster, leader, "t", b"durable") is ErrorCode.none, "it takes records")
    cluster.trouble_disk(leader, UNSYNCED)
    failed = ErrorCode.kafka_storage_error
    eventually(lambda: produce(cluster, leader, "t", b"whose fsync fails") is failed, "the disk fails")
    assert produce(cluster, leader, "t", b"after that") is failed
    assert read_values(cluster.bootstrap, "t", up_to=1) == [(0, b"durable")]
    assert cluster.state_of("t").isr == {leader}
    assert "the disk has failed" in str(
        asyncio.run(GrpcHealth("127.0.0.1", cluster.brokers[leader].rpc_port, RpcIdentity(BROKER, leader)).problem())
    )

    restart(cluster, leader)
    eventually(lambda: produce(cluster, leader, "t", b"repaired") is ErrorCode.none, "it takes records again")
