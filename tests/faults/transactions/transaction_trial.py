"""One trial of transactions: a cluster under their load, the faults of a seed, healing, and the verdict.

When all is well again the writers are stopped; what they have left open has to end by its time-out, so that both
kinds of readers have the same end. Then everything is read in both ways, readers come to the end, and the brokers'
files are compared.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaException

from tests.faults.access.access_operators import access_operators_of
from tests.faults.access.secured_clients import LoadUsers
from tests.faults.cluster import DISK_BYTES_MIN, Cluster, ClusterSettings
from tests.faults.cluster_files import all_replica_problems, log_problems
from tests.faults.cluster_view import ClusterView, partition_versions
from tests.faults.fault import BROKER, CLIENTS, COORDINATOR, DISK_FAULTS, Kind, Members, id_of
from tests.faults.hostility import HostileClients
from tests.faults.injection import Injector, possible_kinds
from tests.faults.network import LoopbackNetwork, Network, open_network
from tests.faults.operation_schedule import Operated
from tests.faults.operators import Operators
from tests.faults.plan import Outcome, Plan
from tests.faults.reading import transactional_record_of
from tests.faults.schedule import make_schedule, members_of
from tests.faults.state_history import state_problems
from tests.faults.topics import PARTITIONS
from tests.faults.transactions.chain_checker import Stage, chain_problems
from tests.faults.transactions.transaction_checker import transaction_problems
from tests.faults.transactions.transaction_history import Contents
from tests.faults.transactions.transaction_history import Outcome as Ending
from tests.faults.transactions.transaction_load import (
    ABILITIES,
    READERS,
    STAGES,
    TOPICS,
    WRITTEN,
    TransactionLoad,
    transaction_rights,
)
from tests.faults.transactions.undecided import hanging_partitions
from tests.faults.trial import DISK_BYTES_PER_SECOND, IN_SYNC_DEADLINE_S, READY_DEADLINE_S
from tests.support.clients.routed_transactions import RoutedTransactions, Unanswered
from tests.support.eventually import NotInTime, eventually

FACTOR = 3
FIRST_TRANSACTIONS = 3
"""Of each writer, before faults begin and after healing."""
FLOW_DEADLINE_S = 90.0
CHAIN_DEADLINE_S = 90.0
LOOK_INTERVAL_S = 0.25
SERVICES: Mapping[str, Mapping[str, str]] = {
    BROKER: {
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
    },
    COORDINATOR: {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPlan(Plan):
    """What a trial of transactions is to be.

    Attributes:
        members: which processes there are, if their number is not to be drawn from the seed.
        services: settings of services, by role.
        writers: which programs write, if not all; without all of them there is no chain.
    """

    members: Members | None = None
    services: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    writers: Collection[str] | None = None


def run_transaction_trial(plan: TransactionPlan) -> Outcome:
    """Runs a trial to its end, and removes all of it but the directory."""
    begun_s = time.monotonic()
    plan.directory.mkdir(parents=True)
    members = plan.members or members_of(plan.seed)
    names = [*members.all, CLIENTS]
    with ExitStack() as held:
        network: Network = LoopbackNetwork(names) if plan.loopback else open_network(names)
        held.callback(network.close)
        kinds = plan.kinds & possible_kinds(network, is_root=os.geteuid() == 0)
        operated = Operated(topics=[topic.name for topic in TOPICS], partitions=PARTITIONS, factor=FACTOR)
        schedule = plan.schedule or make_schedule(
            plan.seed, members, seconds=plan.seconds, kinds=kinds, operated=operated
        )
        (plan.directory / "schedule.txt").write_text(f"seed {plan.seed}\n{schedule}\n")
        settings = ClusterSettings(
            programs=plan.programs,
            services={
                role: {**SERVICES.get(role, {}), **plan.services.get(role, {})}
                for role in (*SERVICES, *plan.services)
            },
            jumping_clocks=schedule.targets_of(Kind.CLOCK),
            small_disks=schedule.targets_of(Kind.FULL_DISK),
            disk_bytes=max(DISK_BYTES_MIN, int(plan.seconds * DISK_BYTES_PER_SECOND)),
            faulty_disks=frozenset().union(*map(schedule.targets_of, DISK_FAULTS)),
            secure=plan.secure,
            users=LoadUsers(rights=transaction_rights(), abilities=ABILITIES, seed=plan.seed),
        )
        cluster = held.enter_context(Cluster(plan.directory, network, members, settings))
        outcome = Outcome(plan.seed, schedule, plan.directory, plan.command("--transactions"))
        try:
            _TransactionTrial(plan, network, cluster, outcome).run()
        except (AssertionError, OSError, KafkaException) as error:
            outcome.problems.append(f"the trial came to an end early: {error}")
        outcome.problems += [*cluster.problems(), *log_problems(cluster.processes)]
    outcome.took_s = time.monotonic() - begun_s
    return outcome


class _TransactionTrial:
    """The steps of a trial whose cluster and network exist."""

    def __init__(self, plan: TransactionPlan, network: Network, cluster: Cluster, outcome: Outcome) -> None:
        self._plan = plan
        self._network = network
        self._cluster = cluster
        self._outcome = outcome
        self._view = ClusterView(cluster)
        self._story = plan.directory / "story.txt"
        addresses = {id_of(name): cluster.kafka_address(name) for name in cluster.members.of(BROKER)}
        self._operators = Operators(addresses, seed=plan.seed, factor=FACTOR)
        self._access = access_operators_of(cluster, seed=plan.seed)
        self._hostile = HostileClients(plan.directory / "load", network, cluster.bootstrap, seed=plan.seed)

    def run(self) -> None:
        self._tell("start")
        self._cluster.start()
        self._view.create_topics([*TOPICS, *self._access.topics], factor=FACTOR)
        assert not (missing := self._view.wait_in_sync(within_s=IN_SYNC_DEADLINE_S)), missing
        self._access.prepare()
        try:
            with TransactionLoad(
                self._plan.directory / "load",
                self._network,
                self._cluster.bootstrap,
                seed=self._plan.seed,
                only=self._plan.writers,
                clients=self._cluster.clients,
            ) as load:
                self._wait_for_commits(load, "transactions are committed")
                self._tell("faults")
                self._access.begin()
                injector = Injector(self._cluster, self._network, self._operators, self._hostile, self._tell)
                injector.carry_out(self._outcome.schedule, load.check)
                self._tell("healing")
                self._heal(load)
        finally:
            self._hostile.close()
            self._operators.close()
            self._access.close()
        self._tell("comparing replicas")
        partitions = self._view.settled()
        versions = partition_versions(self._cluster.etcd_endpoints, self._cluster.etcdctl_options())
        self._outcome.problems += [*state_problems(list(versions)), *self._hostile.problems]
        self._cluster.stop()
        self._outcome.problems += all_replica_problems(self._cluster, partitions)
        self._tell("end")

    def _wait_for_commits(self, load: TransactionLoad, what: str) -> None:
        """Waits until each writer has committed some transactions more."""
        before = load.committed_by_writer()

        def all_have() -> bool:
            self._cluster.look()
            load.check()
            time.sleep(LOOK_INTERVAL_S)  # between two looks; there is a deadline
            now = load.committed_by_writer()
            return all(now[name] >= before[name] + FIRST_TRANSACTIONS for name in load.writers)

        try:
            eventually(all_have, what, within_s=FLOW_DEADLINE_S)
        except NotInTime:
            now = load.committed_by_writer()
            told = ", ".join(f"{name}: {before[name]} and then {now[name]}" for name in load.writers)
            raise AssertionError(f"not every writer goes on when {what}: {told}") from None

    def _heal(self, load: TransactionLoad) -> None:
        """Waits until all is well again, stops the load, reads everything, and judges it."""
        outcome = self._outcome
        self._cluster.wait_ready(within_s=READY_DEADLINE_S)
        self._operators.finish()
        missing = self._view.wait_in_sync(within_s=IN_SYNC_DEADLINE_S)
        outcome.problems += [f"not in sync {IN_SYNC_DEADLINE_S:g} s after healing: {each}" for each in missing]
        self._operators.look()
        outcome.problems += self._operators.problems
        outcome.problems += self._access.finish(self._view)
        self._wait_for_commits(load, "transactions are committed after healing")
        self._tell("stopping the load")
        load.stop_writers()
        outcome.problems += hanging_partitions(self._view, [topic.name for topic in WRITTEN])
        outcome.problems += self._finish_chain(load)
        load.stop_copiers()
        outcome.problems += hanging_partitions(self._view, [topic.name for topic in TOPICS])
        names = [topic.name for topic in TOPICS]
        final = {name: self._read(names, isolation) for name, isolation in READERS.items()}
        load.stop_readers(final)
        outcome.problems += load.refusals()
        written, seen = load.written(), load.seen()
        committed, everything = (final[name] for name in READERS)
        outcome.problems += transaction_problems(written, seen, committed, everything)
        for stage in self._stages:
            outcome.problems += chain_problems(stage, committed, self._offsets_of(stage))
        outcome.problems += load.receding_ends()
        outcome.counts = {
            **{str(each): written.count_of(each) for each in Ending},
            "records": sum(map(len, everything.values())),
            "committed records": sum(map(len, committed.values())),
            "seen": sum(reader.seen_count for reader in seen),
            **dict(Counter(f"{name} locked up" for name in load.locked_up)),
            **self._access.told_counts(),
        }
        (self._plan.directory / "endings.txt").write_text(
            "".join(f"{count} {why}\n" for why, count in written.endings.most_common())
        )

    def _finish_chain(self, load: TransactionLoad) -> list[str]:
        """Waits until every stage of the chain has come to the end, the first one first; those that do not."""
        for stage in self._stages:
            last = {index: records[-1][0] for (_, index), records in self._read([stage.source]).items() if records}

            def has_finished(stage: Stage = stage, last: dict[int, int] = last) -> bool:
                load.revive()
                time.sleep(LOOK_INTERVAL_S)  # between two looks; there is a deadline
                offsets = self._offsets_of(stage)
                return all(offsets[index] > offset for index, offset in last.items())

            try:
                eventually(has_finished, f"{stage.group} has come to the end", within_s=CHAIN_DEADLINE_S)
            except NotInTime:
                return [f"{stage.group} does not come to the end: {self._offsets_of(stage)}, there is {last}"]
        return []

    @property
    def _stages(self) -> Sequence[Stage]:
        return STAGES if self._plan.writers is None else ()

    def _offsets_of(self, stage: Stage) -> dict[int, int]:
        """The committed offsets of a stage's group; -1 where it has none, or is about to commit one."""
        cluster = RoutedTransactions(self._cluster.bootstrap, random.Random(0))
        with closing(cluster), suppress(Unanswered):
            return {index: _offset_of(cluster, stage, index) for index in range(PARTITIONS)}
        return dict.fromkeys(range(PARTITIONS), -1)

    def _read(self, names: Sequence[str], isolation: str = "read_committed") -> Contents:
        places = [(name, index) for name in names for index in range(PARTITIONS)]
        return self._view.read_partitions(places, transactional_record_of, isolation=isolation)

    def _tell(self, what: str) -> None:
        with self._story.open("a") as story:
            story.write(f"{time.strftime('%H:%M:%S', time.gmtime())} {what}\n")


def _offset_of(cluster: RoutedTransactions, stage: Stage, index: int) -> int:
    """The committed offset of a stage's group in one partition.

    Raises:
        Unanswered: nobody has told it.
    """
    _, offset = cluster.any(
        lambda client: client.committed_offset(stage.group, stage.source, stable=True, partition=index)
    )
    return offset
