"""Disks that hang: shorter than the lease that costs nothing, longer it costs the leadership and no record."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, takewhile
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.faults.faulty_disk import UNWRITTEN
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import produce_request, produced
from tests.support.clients.steady_writer import SteadyWriter
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.clusters.service_process import MEMBER_LEASE_TTL_MS
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of

pytestmark = pytest.mark.slow

ALL = {1, 2, 3}
STALL_S = 2 * MEMBER_LEASE_TTL_MS / 1000
LONG_LEASE_MS = 60_000
ANSWER_TIMEOUT_S = 120.0


@contextmanager
def cluster_in(directory: Path, *, lease_ms: int = MEMBER_LEASE_TTL_MS) -> Iterator[ReplicatedCluster]:
    """Nobody leaves an in-sync set by lagging within the time of a test."""
    settings = {"replica.lag.time.max.ms": "600000", "member.lease.ttl.ms": str(lease_ms)}
    with ReplicatedCluster(directory, broker_settings=settings, faulty_disks=True) as cluster:
        yield cluster


def test_a_stall_shorter_than_the_lease_costs_nothing(tmp_path: Path) -> None:
    with cluster_in(tmp_path, lease_ms=LONG_LEASE_MS) as cluster:
        topic = cluster.create_topic("t", configs={"min.insync.replicas": "2"})
        before = cluster.state_of(topic)
        with SteadyWriter(cluster.bootstrap, topic) as writer:
            for broker in ALL:
                with cluster.stalled_disk(broker):
                    time.sleep(STALL_S)  # how long the disk hangs is what is tried
                writer.wait_for_acknowledgements(100)
        assert not writer.failures
        assert writer.longest_pause_s() > STALL_S / 2, "the disks did hang"
        writer.check_complete()
        assert cluster.state_of(topic) == before


def test_a_longer_stall_costs_the_leadership_and_no_record(tmp_path: Path) -> None:
    with cluster_in(tmp_path) as cluster:
        topic = cluster.create_topic("t", configs={"min.insync.replicas": "2"})
        with SteadyWriter(cluster.bootstrap, topic) as writer:
            for _ in range(2):
                leader = cluster.state_of(topic).leader
                with cluster.stalled_disk(leader):
                    cluster.wait_for_other_leader(topic, leader)
                    writer.wait_for_acknowledgements(100)
                cluster.wait_for_isr(topic, ALL)
                writer.wait_for_acknowledgements(100)
        assert not writer.failures
        writer.check_complete()
        cluster.wait_for_equal_logs(topic)


def test_a_record_that_takes_longer_to_write_than_the_lease_is_not_acknowledged(tmp_path: Path) -> None:
    with cluster_in(tmp_path) as cluster, ThreadPoolExecutor() as threads:
        topic = cluster.create_topic("t")
        former = cluster.state_of(topic).leader

        def produce(broker: int, value: bytes) -> ErrorCode:
            request = produce_request(topic, batch_of([value]).encode(), acks=1)
            with RawClient.to(cluster.brokers[broker].bootstrap) as client:
                return produced(client.ask(request, within_s=ANSWER_TIMEOUT_S)).error_code

        def produce_until_refused() -> list[bytes]:
            """One record at a time, of which one meets the disk that hangs; returns those that were acknowledged."""
            values = (b"written %d." % number for number in count())
            return list(takewhile(lambda value: produce(former, value) is ErrorCode.none, values))

        with cluster.stalled_disk(former, UNWRITTEN):
            writing = threads.submit(produce_until_refused)
            leader = cluster.wait_for_other_leader(topic, former)
            eventually(lambda: produce(leader, b"meanwhile") is ErrorCode.none, "the successor takes records")
        acknowledged = writing.result()
        cluster.wait_for_isr(topic, ALL)
        log = cluster.wait_for_equal_logs(topic)
        assert b"meanwhile" in log
        assert [value for value in acknowledged if value not in log] == [], "another broker led by then"
