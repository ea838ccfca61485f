"""The source elects a leader that lacks records while no worker runs; who takes over copies what stands there now."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla_mirror.offsets.map_chunk import Run
from ottla_mirror.offsets.stored_copy import StoredCopy
from tests.support.clients.steady_writer import read_values
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.mirror.copy_worker import cluster_of, map_topic_of

pytestmark = pytest.mark.slow

TOPIC = "elected"
COUNT = 200
WITHIN_S = 60.0


def write(bootstrap: str, kind: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(TOPIC, value=f"{kind} {number}", partition=0)
    assert producer.flush(WITHIN_S) == 0


@contextmanager
def worker(source: ReplicatedCluster, target: OttlaCluster, log: Path) -> Iterator[None]:
    """A process that copies, and stores where it stands as it ends."""
    command = [sys.executable, "-m", "tests.support.mirror.copy_worker", source.bootstrap, target.bootstrap, TOPIC]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(WITHIN_S)


async def stored(target: OttlaCluster) -> StoredCopy | None:
    cluster = cluster_of(target.bootstrap)
    try:
        store = map_topic_of(cluster)
        await store.start()
        return store.copy(TOPIC, 0)
    finally:
        await cluster.close()


def wait_until_copied(target: OttlaCluster, source_offset: int) -> StoredCopy:
    def copied() -> StoredCopy | None:
        found = asyncio.run(stored(target))
        return found if found is not None and found.next_source_offset == source_offset else None

    return eventually(copied, f"all below {source_offset} is copied", within_s=WITHIN_S)


def test_an_unclean_election_while_no_worker_runs_is_noticed_by_the_next_one(tmp_path: Path) -> None:
    settings = {"unclean.leader.election.enable": "true", "member.lease.ttl.ms": "3000"}
    with (
        ReplicatedCluster(
            tmp_path / "a", brokers=2, broker_settings=settings,
            controller_settings={"unclean.leader.election.enable": "true"},
        ) as source,
        OttlaCluster(tmp_path / "b") as target,
    ):  # fmt: skip
        source.create_topic(TOPIC, configs={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
        admin = AdminClient({"bootstrap.servers": target.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
        first = source.wait_for_isr(TOPIC, {1, 2}).leader
        other = 3 - first
        with worker(source, target, tmp_path / "worker.log"):
            write(source.bootstrap, "kept", COUNT)
            source.brokers[other].stop()
            source.wait_for_isr(TOPIC, {first})
            write(source.bootstrap, "lost", COUNT)
            wait_until_copied(target, 2 * COUNT)
        source.brokers[first].stop()
        source.brokers[other].start()
        eventually(
            lambda: source.state_of(TOPIC, broker=other).leader == other, "the other one leads", within_s=WITHIN_S
        )
        # So many that the worker's position lies within what was written instead.
        write(source.brokers[other].bootstrap, "new", 3 * COUNT)
        with worker(source, target, tmp_path / "worker.log"):
            copy = wait_until_copied(target, 4 * COUNT)
        expected = [("kept", COUNT), ("lost", COUNT), ("new", 3 * COUNT)]
        assert [value for _, value in read_values(target.bootstrap, TOPIC, up_to=5 * COUNT)] == [
            f"{kind} {number}".encode() for kind, count in expected for number in range(count)
        ]
        assert list(copy.map.runs()) == [Run(0, 0, COUNT), Run(COUNT, 2 * COUNT, 3 * COUNT)]
