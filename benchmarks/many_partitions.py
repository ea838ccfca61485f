"""A cluster of three brokers with thousands of partitions at factor 3: creating them, starting, losing a broker.

Topics of `PARTITIONS_PER_TOPIC` partitions are created one after the other. Then a broker is killed, and the time
is taken until every partition that it led has another leader, and until all of its replicas are in sync again after
the launcher has started it anew. At last the whole cluster is stopped and started again. Everything is measured for
several sizes, so that what grows faster than the number of partitions shows.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.metadata.v1.request import MetadataRequest

from benchmarks.client import ADMIN_TIMEOUT_S, CLIENT_SETTINGS, BenchmarkFailed
from benchmarks.process_stats import cpu_time, resident_mib
from benchmarks.summary import Measures
from tests.support.clients.raw_client import RawClient, Silence
from tests.support.clusters.ottla_cluster import OttlaCluster

BROKERS = 3
PARTITIONS_PER_TOPIC = 100
TIMEOUT_S = 600.0
POLL_S = 0.05


def measure(directory: Path, sizes: Sequence[int], say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the figures of every number of partitions; the cluster grows from one to the next."""
    directory.mkdir(parents=True, exist_ok=True)
    found: dict[str, Measures] = {}
    cluster = OttlaCluster(directory / "cluster", brokers=BROKERS)
    try:
        cluster.start()
        existing = 0
        for size in sorted(sizes):
            say(f"{size} partitions")
            found[f"{size} partitions"] = _measure(cluster, existing, size, say)
            existing = size
    finally:
        cluster.stop()
    return found


def _measure(cluster: OttlaCluster, existing: int, size: int, say: Callable[[str], None]) -> dict[str, float]:
    created_s = _create(cluster.bootstrap, size - existing)
    in_sync_s = _wait(cluster, lambda topics: _in_sync_replicas(topics) == size * BROKERS, "replicas are in sync")
    cluster.refresh()
    memory = {f"{s.role.replace('-', '_')}_{s.id}_mib": resident_mib(s.pid) for s in cluster.services}
    idle = _idle_cpu(cluster)
    say(f"{size} partitions: losing a broker")
    victim = next(service for service in cluster.services if service.role == "broker" and service.id == BROKERS)
    os.kill(victim.pid, signal.SIGKILL)
    moved_s = _wait(cluster, lambda topics: victim.id not in _leaders(topics) and -1 not in _leaders(topics), "moved")
    healed_s = _wait(cluster, lambda topics: _in_sync_replicas(topics) == size * BROKERS, "in sync again")
    say(f"{size} partitions: starting again")
    cluster.stop()
    began_s = time.perf_counter()
    cluster.start()
    started_s = time.perf_counter() - began_s
    led_s = _wait(cluster, lambda topics: -1 not in _leaders(topics) and len(topics) > 0, "led again")
    _wait(cluster, lambda topics: _in_sync_replicas(topics) == size * BROKERS, "in sync after the start")
    return {
        "create_ms_per_partition": created_s * 1000 / (size - existing),
        "in_sync_after_s": in_sync_s,
        "leaders_moved_after_kill_s": moved_s,
        "in_sync_after_kill_s": moved_s + healed_s,
        "start_s": started_s,
        "led_after_start_s": led_s,
        **memory,
        **idle,
    }


def _create(bootstrap: str, partitions: int) -> float:
    """Create topics, and return how many seconds that took."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **CLIENT_SETTINGS})
    began_s = time.perf_counter()
    for start in range(0, partitions, PARTITIONS_PER_TOPIC):
        name = f"benchmark-{time.time_ns():x}"
        count = min(PARTITIONS_PER_TOPIC, partitions - start)
        topic = NewTopic(name, num_partitions=count, replication_factor=BROKERS)
        admin.create_topics([topic], operation_timeout=ADMIN_TIMEOUT_S)[name].result(ADMIN_TIMEOUT_S)
    return time.perf_counter() - began_s


def _idle_cpu(cluster: OttlaCluster, seconds: float = 10.0) -> dict[str, float]:
    """Return what part of a core each process uses while nothing is published."""
    before = {service: cpu_time(service.pid).total_s for service in cluster.services}
    time.sleep(seconds)
    return {
        f"{service.role.replace('-', '_')}_{service.id}_idle_core_percent": (
            100 * (cpu_time(service.pid).total_s - used_s) / seconds
        )
        for service, used_s in before.items()
    }


def _wait(cluster: OttlaCluster, holds: Callable[[Sequence[Any]], bool], what: str) -> float:
    """Return how many seconds it takes until the first broker's metadata fulfil a condition."""
    began_s = time.perf_counter()
    while time.perf_counter() - began_s < TIMEOUT_S:
        try:
            with RawClient.to(cluster.bootstrap) as client:
                answer: Any = client.ask(MetadataRequest(topics=None))
        except (OSError, Silence):
            answer = None
        if answer is not None and answer.topics and holds(answer.topics):
            return time.perf_counter() - began_s
        time.sleep(POLL_S)
    raise BenchmarkFailed(f"waited in vain for: {what}")


def _leaders(topics: Sequence[Any]) -> set[int]:
    return {int(partition.leader_id) for topic in topics for partition in topic.partitions}


def _in_sync_replicas(topics: Sequence[Any]) -> int:
    return sum(len(partition.isr_nodes) for topic in topics for partition in topic.partitions)
