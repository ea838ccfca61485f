"""What replication costs: acks=all beside acks=1 at factor 3, and the CPU of the leader and of its followers.

Three brokers run on this machine and share its cores with the client. Each repetition publishes the same load three
times, to a topic of one partition: at factor 1, and at factor 3 with acks=1 and with acks=all. A run ends when the
high watermark has reached the end, so each pays for the replication of its own records and for nobody else's. Then
records go out one by one with acks=all, for the latency.

A Kafka of three nodes, each broker and controller, may take part: it is warmed up first (`warm_up.py`), and then both
take turns, the other idling, so that ratios are between neighbours.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import latency, throughput
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
from benchmarks.summary import Measures, ratios
from benchmarks.throughput import CONSUMER_SETTINGS, Load
from benchmarks.warm_up import warm_up_topic
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.reference.reference_kafka import ReferenceKafkaCluster

BROKERS = 3
LEADER = "broker-1"
FOLLOWERS = ("broker-2", "broker-3")
REPLICATED_TIMEOUT_S = 120.0
POLL_S = 0.01
REPLICAS = (1, 2, 3)
RUNS = {"factor_1": ((1,), "1"), "acks_1": (REPLICAS, "1"), "acks_all": (REPLICAS, "all")}
"""By name: the replicas, of which the first leads, and the acks."""
LATENCY = "acks_all_latency"
KAFKA_JAVA_OPTIONS = ("-Xmx1g", "-Xms1g")
"""Of each node; both of Java's compilers are on, as they are by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPlan:
    """What to measure.

    Attributes:
        record_bytes: size of each value.
        total_bytes: of all values of one run.
        repetitions: how often every run is made; the runs take turns.
        kafka: whether Kafka takes part.
        latency_records: how many go out one by one in each repetition.
        latency_rate_per_s: how many of them in a second.
    """

    record_bytes: int = 1000
    total_bytes: int = 500_000_000
    repetitions: int = 5
    kafka: bool = False
    latency_records: int = 5000
    latency_rate_per_s: float = 500.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Three brokers that are measured.

    Attributes:
        bootstrap: their addresses.
        processes: their process ids, by name: `LEADER` and `FOLLOWERS`.
    """

    bootstrap: str
    processes: Mapping[str, int]

    @property
    def leader(self) -> Subject:
        """The broker that leads every topic here."""
        return Subject(self.bootstrap, self.processes[LEADER])


def measure(directory: Path, plan: ReplicationPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the medians of every run's figures, and of the ratios between runs that were neighbours."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        clusters = {"ottla": _ottla(running, directory)}
        if plan.kafka:
            clusters["kafka"] = _kafka(running, directory)
            say("kafka: warming up")
            with _topic(clusters["kafka"].bootstrap, REPLICAS) as topic:
                warm_up_topic(clusters["kafka"].leader, topic, "all")
        found: dict[str, dict[str, list[dict[str, float]]]] = {name: {} for name in clusters}
        for repetition in range(plan.repetitions):
            for run in (*RUNS, LATENCY):
                for name, cluster in clusters.items():
                    say(f"{repetition + 1}/{plan.repetitions} {name} {run}")
                    found[name].setdefault(run, []).append(_run(cluster, run, plan))
    results: dict[str, Measures] = {
        f"{name} {run}": _medians(runs) for name, by_run in found.items() for run, runs in by_run.items()
    }
    results |= {f"{name} ratios": _ratios(by_run) for name, by_run in found.items()}
    if plan.kafka:
        results |= {
            f"ottla/kafka {run}": _to_kafka(found["ottla"][run], found["kafka"][run]) for run in found["ottla"]
        }
    return results


def _ottla(running: ExitStack, directory: Path) -> Cluster:
    cluster = running.enter_context(OttlaCluster(directory / "cluster", brokers=BROKERS))
    return Cluster(cluster.bootstrap, {f"{s.role}-{s.id}": s.pid for s in cluster.services if s.role == "broker"})


def _kafka(running: ExitStack, directory: Path) -> Cluster:
    kafka = running.enter_context(
        ReferenceKafkaCluster(directory / "kafka", nodes=BROKERS, java_options=KAFKA_JAVA_OPTIONS)
    )
    return Cluster(kafka.bootstrap, {f"broker-{number}": node.process.pid for number, node in kafka.nodes.items()})


def _run(cluster: Cluster, run: str, plan: ReplicationPlan) -> dict[str, float]:
    if run == LATENCY:
        with _topic(cluster.bootstrap, REPLICAS) as topic:
            return latency.measure(
                cluster.leader, topic, records=plan.latency_records, rate_per_s=plan.latency_rate_per_s, acks="all"
            )
    replicas, acks = RUNS[run]
    load = Load(plan.record_bytes, plan.total_bytes, acks)
    with _topic(cluster.bootstrap, replicas) as topic:
        meter = ProcessMeter(cluster.processes)
        produced = throughput.produce(cluster.leader, topic, load)
        replicated_s = _wait_until_replicated(cluster.bootstrap, topic, load.records)
        cpu_s, elapsed_s = meter.stop()
    gigabytes = load.records * load.record_bytes / 1e9
    return {
        "mb_per_s": produced["mb_per_s"],
        "mb_per_s_until_replicated": load.records * load.record_bytes / 1e6 / elapsed_s,
        "replicated_after_s": replicated_s,
        "leader_cpu_s_per_gb": cpu_s[LEADER] / gigabytes,
        "follower_cpu_s_per_gb": statistics.mean(cpu_s[name] for name in FOLLOWERS) / gigabytes,
        "cpu_s_per_gb": sum(cpu_s.values()) / gigabytes,
    }


@contextmanager
def _topic(bootstrap: str, replicas: tuple[int, ...]) -> Iterator[str]:
    name = _create(bootstrap, replicas)
    try:
        yield name
    finally:
        delete_topic(bootstrap, name)


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


def _to_kafka(ottla: list[dict[str, float]], kafka: list[dict[str, float]]) -> dict[str, float]:
    return {name: found.median for name, found in ratios(ottla, kafka).items()}


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
