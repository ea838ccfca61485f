"""A whole simulated cluster, and one run of it: faults and load, then peace, then everything has to be well again.

`simulate(seed)` is the entry. It raises `SimulationFailed`, which shows the seed, the rule that was broken and what
happened last. The same seed gives the same run, whatever else happens in the process.
"""

import sys
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from shlex import quote
from types import ModuleType
from unittest.mock import patch
from uuid import UUID

from ottla_controller.change_encoder import ChangeEncoder
from ottla_controller.fenced_writer import Write
from ottla_controller.leader_election import first_state
from ottla_core import slices
from ottla_core.cluster.etcd.operations import ABSENT
from ottla_core.cluster.state.codec import encode_cluster_id
from ottla_core.cluster.state.model import NO_LEADER, PartitionState, Topic
from ottla_core.cluster.view import feed
from ottla_core.topic_partition import TopicPartition
from tests.simulation.clients import Consumer, Producer
from tests.simulation.etcd_members import members_of
from tests.simulation.fake_etcd import KEYS, FakeEtcd
from tests.simulation.fake_log import InvariantViolated
from tests.simulation.faults import Faults
from tests.simulation.invariants import Invariants
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.schedule import Schedule
from tests.simulation.shared_view import SharedTracker
from tests.simulation.simulated_broker import SimulatedBroker
from tests.simulation.simulated_controller import SimulatedController

BROKERS = 4
CONTROLLERS = 2
REPLICATION_FACTOR = 3
NAME = TopicPartition("t", 0)

START_MS = 1_000.0
TROUBLE_MS = 20_000.0
RECOVERY_LIMIT_MS = 60_000.0
CHECK_INTERVAL_MS = 500.0
TRACE_LINES_SHOWN = 60


@cache
def reporting() -> tuple[tuple[ModuleType, str], ...]:
    """Return the real modules that report what they do, and the names of their loggers."""
    return tuple(
        (module, name)
        for module_name, module in sorted(sys.modules.items())
        if module_name.startswith("ottla_")
        for name in ("log", "logger")
        if hasattr(getattr(module, name, None), "bind")
    )


class Reports:
    """What the real shells log: of no interest, but for exceptions that they did not expect."""

    def __init__(self, invariants: Invariants) -> None:
        self._invariants = invariants

    def debug(self, *_: object, **__: object) -> None:
        """Pass over trouble that is part of the simulation."""

    info = warning = debug

    def bind(self, **_: object) -> "Reports":
        """Return what reports with more words."""
        return self

    def error(self, event: str, *, exc_info: BaseException | None = None, **_: object) -> None:
        """Notice an unexpected exception of a background task."""
        if exc_info is not None:
            self._invariants.unexpected(event, exc_info)

    def exception(self, event: str, **_: object) -> None:
        """Notice an unexpected exception."""
        error = sys.exc_info()[1]
        assert error is not None
        self._invariants.unexpected(event, error)


class SimulationFailed(AssertionError):
    """A run broke a rule; the message tells how to see it again."""

    def __init__(
        self, schedule: Schedule, error: BaseException, replay: str, lines: int | None = TRACE_LINES_SHOWN
    ) -> None:
        self.seed = schedule.seed
        self.is_violation = isinstance(error, InvariantViolated)
        self.rule = str(error) if self.is_violation else f"{type(error).__name__}: {error}"
        trace = "\n".join(schedule.trace_lines(lines))
        super().__init__(
            f"seed {schedule.seed} at {schedule.now_ms:.1f} ms\n{trace}\nviolated: {self.rule}\nreplay: {replay}"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        is_available: whether the partition could have a leader in the end; it cannot if all that were electable
            have lost their disks.
    """

    seed: int
    steps: int
    acknowledged: int
    consumed: int
    elections: int
    is_available: bool
    trace_hash: str = ""


class SimulatedCluster:
    """All processes of one run.

    Args:
        seed: determines it.
        often: what is to go wrong much more often than the seed says (see `Faults`).
        rule: which rule is broken, if one is; told with a failure.

    Attributes:
        options: of the command that shows this run again.
    """

    def __init__(self, seed: int, often: Collection[str] = (), rule: str = "") -> None:
        self.options = {"rule": [rule] if rule else [], "often": list(often)}
        self.schedule = schedule = Schedule(seed)
        self.network = network = Network(schedule)
        self.etcd = FakeEtcd(schedule, network.is_cut)
        self.etcd.members = members_of(self.etcd)
        self.invariants = Invariants(self)
        self.etcd.when_changed = self.invariants.state_changed
        self.etcd.when_written = self.invariants.written
        self.brokers = {
            broker_id: SimulatedBroker(broker_id, schedule, network, self.etcd, self.invariants)
            for broker_id in range(1, BROKERS + 1)
        }
        self.controllers = {
            controller_id: SimulatedController(controller_id, schedule, network, self.etcd, self.invariants)
            for controller_id in range(1, CONTROLLERS + 1)
        }
        for broker in self.brokers.values():
            broker.cluster = self
        pause_ms = schedule.random.choice((100.0, 400.0, 1_000.0))
        self.producers = [
            Producer(f"producer-{number}", schedule, network, self.brokers, NAME, pause_ms=pause_ms)
            for number in (1, 2)
        ]
        self.consumer = Consumer("consumer", schedule, network, self.brokers, NAME)
        self.faults = Faults(self, often)
        self.lag_max_ms = schedule.random.choice((600, 1_500, 3_000))
        self.disk_delay_max_ms = schedule.random.choice((2.0, 300.0, 1_500.0))
        self.min_insync_replicas = schedule.random.choice((1, 2, 2))
        self.invariants.allows_unclean = schedule.chance(0.05)

    @property
    def replay(self) -> str:
        """The command that shows this run again."""
        options = [
            word for name, values in self.options.items() if values for word in (f"--{name}", *map(quote, values))
        ]
        return " ".join(("python -m tests.simulation", str(self.schedule.seed), *options))

    @property
    def processes(self) -> list[Process]:
        """All processes that can be in trouble."""
        return [*self.brokers.values(), *self.controllers.values(), *self.etcd.members]

    @property
    def partition(self) -> PartitionState:
        """The partition as etcd has it."""
        return self.etcd.state.topics[NAME.topic].partitions[NAME.partition]

    def run(self) -> Outcome:
        """Go through trouble and recovery.

        Raises:
            SimulationFailed: a rule was broken.
        """
        reports = Reports(self.invariants)
        with ExitStack() as patched:
            for module, name in reporting():
                patched.enter_context(patch.object(module, name, reports))
            patched.enter_context(patch.object(feed, "StateTracker", partial(SharedTracker, self.etcd)))
            patched.enter_context(patch.object(slices, "perf_counter", lambda: 0.0))  # no slice is ever over
            patched.callback(self._abandon)
            return self._run()

    def _abandon(self) -> None:
        for process in (*self.brokers.values(), *self.controllers.values()):
            for loop in process.loops:
                loop.abandon()

    def _run(self) -> Outcome:
        schedule = self.schedule
        try:
            self._start()
            while len(self.etcd.state.registrations) < BROKERS:
                self._check_time(TROUBLE_MS, "not all brokers have registered")
                schedule.run_until(schedule.now_ms + START_MS, self.invariants.after_step)
            self.create_topic(NAME.topic, 1, self.choose_replicas())
            self.go_through_trouble()
            schedule.note("everybody", "is left in peace")
            self.faults.heal()
            is_available = self._recover()
        except Exception as error:
            raise SimulationFailed(schedule, error, self.replay) from error
        invariants = self.invariants
        return Outcome(
            seed=schedule.seed,
            steps=schedule.steps,
            acknowledged=invariants.acknowledged_count,
            consumed=invariants.consumed_count,
            elections=invariants.election_count,
            is_available=is_available,
        )

    def _start(self) -> None:
        self.etcd.put_directly([Write(key=KEYS.cluster_id, value=encode_cluster_id("simulated"), replaces=ABSENT)])
        for process in (*self.etcd.members, *self.brokers.values(), *self.controllers.values()):
            process.start()

    def choose_replicas(self) -> tuple[int, ...]:
        """Return where the partition begins."""
        return tuple(self.schedule.random.sample(sorted(self.etcd.state.brokers), REPLICATION_FACTOR))

    def go_through_trouble(self) -> None:
        """Have clients at work while things go wrong."""
        self.start_clients()
        self.faults.start()
        self.schedule.run_until(TROUBLE_MS, self.invariants.after_step)

    def start_clients(self) -> None:
        """Begin to produce and to consume."""
        for client in (*self.producers, self.consumer):
            client.start()

    def create_topic(self, name: str, id_: int, replicas: tuple[int, ...]) -> None:
        """Create a topic of one partition, without asking the controller."""
        state = first_state(UUID(int=id_), 0, replicas, self.etcd.state.brokers)
        configs = {
            "min.insync.replicas": str(self.min_insync_replicas),
            "unclean.leader.election.enable": str(self.invariants.allows_unclean).lower(),
        }
        topic = Topic(name=name, id=state.topic_id, partitions=(state,), configs=configs)
        self.etcd.put_directly(ChangeEncoder(KEYS).creation(topic))

    # Recovery

    def _recover(self) -> bool:
        """Wait until records are acknowledged and replicas are equal again; return whether that is possible."""
        run_until, after_step = self.schedule.run_until, self.invariants.after_step
        acknowledged = self.invariants.acknowledged_count
        limit_ms = self.schedule.now_ms + RECOVERY_LIMIT_MS
        while self.invariants.acknowledged_count == acknowledged or self.partition.adding or self.partition.removing:
            if not self._can_recover():
                return False
            self._check_time(limit_ms, f"no record is acknowledged, or a reassignment does not end: {self.partition}")
            run_until(self.schedule.now_ms + CHECK_INTERVAL_MS, after_step)
        for producer in self.producers:
            producer.kill()
        while problem := self._difference():
            self._check_time(limit_ms, problem)
            run_until(self.schedule.now_ms + CHECK_INTERVAL_MS, after_step)
        return True

    def _check_time(self, limit_ms: float, problem: str) -> None:
        if self.schedule.now_ms > limit_ms:
            raise InvariantViolated(f"in peace everything becomes well again: {problem}")

    def _can_recover(self) -> bool:
        partition = self.partition
        electable = {*partition.isr, *partition.eligible_leaders} - self.invariants.history(NAME).wiped
        elects_anyone = self.invariants.allows_unclean and not self.invariants.elected_the_last
        return partition.leader != NO_LEADER or bool(electable) or elects_anyone

    def _difference(self) -> str:
        """Return in what the replicas differ from the leader's, or nothing."""
        partition = self.partition
        if set(partition.isr) != set(partition.replicas):
            return f"isr {partition.isr} of {partition.replicas}"
        if any(NAME not in self.brokers[broker_id].disk.logs for broker_id in partition.replicas):
            return f"not all of {partition.replicas} have created their logs"
        leader = self.brokers[partition.leader].disk.logs[NAME]
        for broker_id in partition.replicas:
            log = self.brokers[broker_id].disk.logs[NAME]
            if log.records != leader.records:
                return f"broker {broker_id} has {log.log_end_offset} records, the leader {leader.log_end_offset}"
            if log.high_watermark != leader.log_end_offset:
                return f"broker {broker_id} has the high watermark {log.high_watermark} of {leader.log_end_offset}"
        return ""


def simulate(seed: int, often: Collection[str] = (), rule: str = "") -> Outcome:
    """Run one simulation; see `SimulatedCluster`.

    Raises:
        SimulationFailed: a rule was broken.
    """
    return SimulatedCluster(seed, often, rule).run()
