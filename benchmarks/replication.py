"""What replication costs: acks=all beside acks=1 at factor 3, and the CPU of the leader and of its followers.

Three brokers run on this machine and share its cores with the client. Each repetition publishes the same load three
times, to a topic of one partition: at factor 1, and at factor 3 with acks=1 and with acks=all. A run ends when the
high watermark has reached the end, so each pays for the replication of its own records and for nobody else's.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import throughput
from benchmarks.client import (
    ADMIN_TIMEOUT_S,
    CLIENT_SETTINGS,
    TOPIC_CONFIG,
    BenchmarkFailed,
    Subject,
    delete_topic,
    wait_for_leaders,
)
from benchmarks.groups import ProcessMeter
from benchmarks.summary import Measures
from benchmarks.throughput import CONSUMER_SETTINGS, Load
from tests.support.ottla_cluster import OttlaCluster

BROKERS = 3
LEADER = "broker-1"
FOLLOWERS = ("broker-2", "broker-3")
REPLICATED_TIMEOUT_S = 120.0
POLL_S = 0.01
RUNS = {"factor_1": ((1,), "1"), "acks_1": ((1, 2, 3), "1"), "acks_all": ((1, 2, 3), "all")}
"""By name: the replicas, of which the first leads, and the acks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPlan:
    """What to measure.

    Attributes:
        record_bytes: size of each value.
        total_bytes: of all values of one run.
        repetitions: how often every run is made; the runs take turns.
    """

    record_bytes: int = 1000
    total_bytes: int = 500_000_000
    repetitions: int = 5


def measure(directory: Path, plan: ReplicationPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the medians of every run's figures, and of the ratios between runs that were neighbours."""
    directory.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in RUNS}
    with OttlaCluster(directory / "cluster", brokers=BROKERS) as cluster:
        processes = {f"{s.role}-{s.id}": s.pid for s in cluster.services if s.role == "broker"}
        for repetition in range(plan.repetitions):
            for name, (replicas, acks) in RUNS.items():
                say(f"{repetition + 1}/{plan.repetitions} {name}")
                load = Load(plan.record_bytes, plan.total_bytes, acks)
                found[name].append(_run(cluster.bootstrap, processes, replicas, load))
    results: dict[str, Measures] = {name: _medians(runs) for name, runs in found.items()}
    results["ratios"] = _ratios(found)
    return results


def _run(bootstrap: str, processes: dict[str, int], replicas: tuple[int, ...], load: Load) -> dict[str, float]:
    topic = _create(bootstrap, replicas)
    try:
        meter = ProcessMeter(processes)
        subject = Subject(bootstrap, processes[LEADER])
        produced = throughput.produce(subject, topic, load)
        replicated_s = _wait_until_replicated(bootstrap, topic, load.records)
        cpu_s, elapsed_s = meter.stop()
    finally:
        delete_topic(bootstrap, topic)
    gigabytes = load.records * load.record_bytes / 1e9
    return {
        "mb_per_s": produced["mb_per_s"],
        "mb_per_s_until_replicated": load.records * load.record_bytes / 1e6 / elapsed_s,
        "replicated_after_s": replicated_s,
        "leader_cpu_s_per_gb": cpu_s[LEADER] / gigabytes,
        "follower_cpu_s_per_gb": statistics.mean(cpu_s[name] for name in FOLLOWERS) / gigabytes,
    }


def _create(bootstrap: str, replicas: tuple[int, ...]) -> str:
    name = f"benchmark-{time.time_ns():x}"
    topic = NewTopic(name, num_partitions=1, replica_assignment=[list(replicas)], config=TOPIC_CONFIG)
    admin = AdminClient({"bootstrap.servers": bootstrap, **CLIENT_SETTINGS})
    admin.create_topics([topic], operation_timeout=ADMIN_TIMEOUT_S)[name].result(ADMIN_TIMEOUT_S)
    wait_for_leaders(bootstrap.partition(",")[0], 1, name)
    return name


def _wait_until_replicated(bootstrap: str, topic: str, records: int) -> float:
    """Return how many seconds it takes until the high watermark has passed all records."""
    began_s = time.perf_counter()
    consumer = Consumer({"bootstrap.servers": bootstrap, **CONSUMER_SETTINGS})
    try:
        while time.perf_counter() - began_s < REPLICATED_TIMEOUT_S:
            _, high_watermark = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=ADMIN_TIMEOUT_S)
            if high_watermark >= records:
                return time.perf_counter() - began_s
            time.sleep(POLL_S)
    finally:
        consumer.close()
    raise BenchmarkFailed(f"{topic} is not replicated after {REPLICATED_TIMEOUT_S} s")


def _medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _ratios(found: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Return medians over the repetitions; the runs of one repetition are neighbours in time."""
    neighbours = list(zip(found["factor_1"], found["acks_1"], found["acks_all"], strict=True))
    return {
        "acks_all_to_acks_1_mb_per_s": statistics.median(
            every["mb_per_s"] / one["mb_per_s"] for _, one, every in neighbours
        ),
        "acks_all_to_acks_1_mb_per_s_until_replicated": statistics.median(
            every["mb_per_s_until_replicated"] / one["mb_per_s_until_replicated"] for _, one, every in neighbours
        ),
        "follower_to_produce_cpu": statistics.median(
            every["follower_cpu_s_per_gb"] / alone["leader_cpu_s_per_gb"] for alone, _, every in neighbours
        ),
    }
