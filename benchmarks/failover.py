"""What clients notice when processes of a cluster die: the pauses of a steady producer (acks=all) and consumer.

Three brokers, three controllers, two group coordinators and three etcd members on loopback, one partition with three
replicas and min.insync.replicas=2. Each case does one thing to the cluster and tells the longest time without an
acknowledgement, the longest without a record read, and how many produces failed for good.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kio.schema.errors import ErrorCode

from benchmarks.client import BenchmarkFailed
from benchmarks.small_requests import one_record_batch
from benchmarks.steady_clients import SteadyClients
from benchmarks.summary import Measures
from tests.faults.cluster import Cluster, ClusterSettings
from tests.faults.cluster_view import ClusterView, etcd_leader, leading_controller
from tests.faults.fault import BROKER, CLIENTS, CONTROLLER, ETCD, Members
from tests.faults.network import LoopbackNetwork
from tests.faults.topics import Keeps, LoadTopic
from tests.support.clients.raw_client import RawClient, Silence
from tests.support.clients.raw_requests import produce_request, produced
from tests.support.eventually import eventually

TOPIC = "failover"
DEADLINE_S = 120.0
WATCHED_S = 10.0
"""How long clients are watched after something that should not disturb them."""
SETTLE_S = 2.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """What to measure.

    Attributes:
        lease_ttl_ms: the session timeout of brokers, controllers and coordinators.
        repetitions: how often a leader is killed, and stopped.
        etcd_outage_s: how long all of etcd is away.
    """

    cases: tuple[str, ...] = ()
    lease_ttl_ms: int = 6000
    repetitions: int = 20
    etcd_outage_s: float = 120.0


class FailoverCluster:
    """The cluster, its clients, and what can be done to it."""

    def __init__(self, cluster: Cluster, clients: SteadyClients) -> None:
        self.cluster = cluster
        self.clients = clients
        self.view = ClusterView(cluster)

    def leader(self) -> str:
        """Return the name of the partition's leader."""
        return f"{BROKER}-{self.view.leader_of(TOPIC, 0)}"

    def wait_healed(self) -> None:
        """Wait until everything runs and is in sync, and for a moment of peace.

        Raises:
            BenchmarkFailed: it does not come to that.
        """
        self.cluster.wait_ready(within_s=DEADLINE_S)
        if missing := self.view.wait_in_sync(within_s=DEADLINE_S):
            raise BenchmarkFailed(f"the cluster does not heal: {missing}")
        self.watch(SETTLE_S)

    def acknowledged_after_s(self, since_s: float) -> float:
        """Wait until a record that was sent after a moment is acknowledged, and return when that was."""
        answered_s = eventually(
            lambda: self.clients.first_acknowledged_s(since_s), "a record is acknowledged", within_s=DEADLINE_S
        )
        assert answered_s is not None
        return answered_s

    def written_s(self, *, without: str) -> float:
        """Ask the other brokers for the leader until it takes a record (acks=all), and return when that was."""
        brokers = [name for name in self.cluster.members.of(BROKER) if name != without]
        eventually(
            lambda: any(self._writes_through(name) for name in brokers),
            "a leader takes a record",
            within_s=DEADLINE_S,
        )
        return time.monotonic()

    def _writes_through(self, broker: str) -> bool:
        """Return whether a broker leads and takes a record."""
        host, port = self.cluster.kafka_address(broker)
        try:
            with RawClient(host, port) as client:
                answer = client.ask(produce_request(TOPIC, one_record_batch(b"probe")))
        except (OSError, Silence):
            return False
        return produced(answer).error_code is ErrorCode.none

    def watch(self, seconds: float) -> tuple[float, float]:
        """Let time pass, and return from when until when."""
        from_s = time.monotonic()
        while time.monotonic() < from_s + seconds:
            self.cluster.look()
            time.sleep(0.05)
        return from_s, time.monotonic()

    def pauses(self, from_s: float, until_s: float, failed_before: int) -> dict[str, float]:
        """Return what the clients noticed within a span."""
        return {
            "produce_pause_ms": self.clients.produce_pause_s(from_s, until_s) * 1000,
            "consume_pause_ms": self.clients.consume_pause_s(from_s, until_s) * 1000,
            "failed_produces": len(self.clients.failures) - failed_before,
        }


def run(plan: FailoverPlan, say: Say) -> dict[str, Measures]:
    """Return the figures of every case by its name."""
    members = Members()
    with tempfile.TemporaryDirectory(prefix="ottla-failover-") as directory:
        network = LoopbackNetwork([*members.all, CLIENTS])
        settings = ClusterSettings(lease_ttl_ms=plan.lease_ttl_ms)
        with Cluster(Path(directory), network, members, settings) as cluster:
            cluster.start()
            ClusterView(cluster).create_topics([LoadTopic(TOPIC, Keeps.EVERYTHING, {})], partitions=1, factor=3)
            with SteadyClients(cluster.bootstrap, TOPIC) as clients:
                target = FailoverCluster(cluster, clients)
                found: dict[str, Measures] = {}
                for case in plan.cases or tuple(CASES):
                    target.wait_healed()
                    say(case)
                    found[case] = CASES[case](target, plan)
                return found


def kill_leader(target: FailoverCluster, plan: FailoverPlan) -> Measures:
    """kill -9 of the partition's leader: how long until a record sent afterwards is acknowledged.

    Once as a client sees it that asks for the leader all the time, and once as librdkafka does, which needs a second
    more where its partition's broker is missing from the metadata: it takes the partition back from the new leader.
    """
    failed_before = len(target.clients.failures)
    probe_waits_s, waits_s = [], []
    for _ in range(plan.repetitions):
        target.wait_healed()
        leader = target.cluster.processes[target.leader()]
        leader.kill()
        killed_s = time.monotonic()
        probe_waits_s.append(target.written_s(without=leader.name) - killed_s)
        waits_s.append(target.acknowledged_after_s(killed_s) - killed_s)
        leader.start()
    return {
        "median_ms": statistics.median(probe_waits_s) * 1000,
        "worst_ms": max(probe_waits_s) * 1000,
        "librdkafka_median_ms": statistics.median(waits_s) * 1000,
        "librdkafka_worst_ms": max(waits_s) * 1000,
        "session_timeout_ms": plan.lease_ttl_ms,
        "failed_produces": len(target.clients.failures) - failed_before,
    }


def stop_leader(target: FailoverCluster, plan: FailoverPlan) -> Measures:
    """A controlled shutdown of the partition's leader, and its return."""
    failed_before = len(target.clients.failures)
    pauses = []
    for _ in range(plan.repetitions):
        target.wait_healed()
        leader = target.cluster.processes[target.leader()]
        from_s = time.monotonic()
        leader.begin_stop()
        eventually(leader.has_stopped, f"{leader.name} has stopped", within_s=DEADLINE_S)
        leader.start()
        target.wait_healed()
        pauses.append(target.pauses(from_s, time.monotonic(), failed_before))
    return {
        "produce_pause_median_ms": statistics.median(pause["produce_pause_ms"] for pause in pauses),
        "produce_pause_worst_ms": max(pause["produce_pause_ms"] for pause in pauses),
        "consume_pause_worst_ms": max(pause["consume_pause_ms"] for pause in pauses),
        "failed_produces": len(target.clients.failures) - failed_before,
    }


def kill_controller(target: FailoverCluster, plan: FailoverPlan) -> Measures:
    """kill -9 of the leading controller."""
    name = f"{CONTROLLER}-{leading_controller(target.cluster.etcd_endpoints)}"
    return _kill_and_watch(target, [name], WATCHED_S + plan.lease_ttl_ms / 1000)


def kill_etcd_follower(target: FailoverCluster, plan: FailoverPlan) -> Measures:
    """kill -9 of an etcd member that does not lead."""
    leader = etcd_leader(target.cluster.etcd_endpoints)
    name = next(each for each in target.cluster.members.of(ETCD) if each != leader)
    return _kill_and_watch(target, [name], WATCHED_S + plan.lease_ttl_ms / 1000)


def kill_etcd_leader(target: FailoverCluster, plan: FailoverPlan) -> Measures:
    """kill -9 of the leading etcd member."""
    name = etcd_leader(target.cluster.etcd_endpoints)
    return _kill_and_watch(target, [name], WATCHED_S + plan.lease_ttl_ms / 1000)


def lose_etcd(target: FailoverCluster, plan: FailoverPlan) -> Measures:
    """kill -9 of all etcd members, which come back with their data after a while."""
    return _kill_and_watch(target, list(target.cluster.members.of(ETCD)), plan.etcd_outage_s)


def _kill_and_watch(target: FailoverCluster, names: list[str], seconds: float) -> Measures:
    failed_before = len(target.clients.failures)
    processes = [target.cluster.processes[name] for name in names]
    begun_s = time.monotonic()
    for process in processes:
        process.kill()
    _, until_s = target.watch(seconds)
    away = target.pauses(begun_s, until_s, failed_before)
    acknowledged = target.clients.acknowledged_count(begun_s, until_s)
    for process in processes:
        process.start()
    target.wait_healed()
    back = target.pauses(until_s, time.monotonic(), failed_before)
    return {
        "away_s": until_s - begun_s,
        "acknowledged_while_away": acknowledged,
        **{
            f"{name.removesuffix('_ms')}_while_away_ms": away[name]
            for name in ("produce_pause_ms", "consume_pause_ms")
        },
        **{
            f"{name.removesuffix('_ms')}_when_back_ms": back[name]
            for name in ("produce_pause_ms", "consume_pause_ms")
        },
        "failed_produces": back["failed_produces"],
    }


CASES: Mapping[str, Callable[[FailoverCluster, FailoverPlan], Measures]] = {
    "kill-leader": kill_leader,
    "stop-leader": stop_leader,
    "kill-controller": kill_controller,
    "kill-etcd-follower": kill_etcd_follower,
    "kill-etcd-leader": kill_etcd_leader,
    "lose-etcd": lose_etcd,
}
