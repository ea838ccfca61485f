"""A simulated controller: campaigns, and while it leads decides with the real pure rules, one change at a time.

As in the real shell, each change is decided on the own cluster state, written in one transaction that compares the
election key and every key that it replaces, and followed by the next one only when the own state shows it. An attempt
whose answer is lost is repeated; it may be carried out late all the same, and then its compares have to stop it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from ottla_controller import isr_changes, leader_election, preferred_leaders, reassignment
from ottla_controller.broker_standing import Standings, due_registrations, standings
from ottla_controller.configs import ConfigPlan, TopicTarget
from ottla_controller.partition_change import TopicRules
from ottla_controller.topic_rules import partitions_to_clear, rules_of_topics
from ottla_core.cluster.controller_api import (
    AlteredResource,
    ConfigResourceType,
    ElectionType,
    IsrChange,
    Reassignment,
)
from ottla_core.cluster.model import ClusterState, ControllerLeader, PartitionState, Topic
from ottla_core.topic_partition import TopicPartition
from tests.simulation.fake_etcd import (
    ABSENT,
    CONTROLLER,
    Compare,
    FakeEtcd,
    Put,
    Transaction,
    TransactionResult,
    Watcher,
)
from tests.simulation.lease_keeper import ATTEMPT_TIMEOUT_MS, RETRY_DELAY_MS, LeaseKeeper
from tests.simulation.network import Answer, Network
from tests.simulation.schedule import Schedule

CONFLICT_ATTEMPTS = 5
PREFERRED_ELECTION_INTERVAL_MS = 4_000
NOT_LEADING = (ErrorCode.not_controller, 0)

Decision = Callable[[ClusterState], "tuple[list[Put], Any]"]
"""Looks at a state; returns what is to be written and what the asker is to be told."""


class SimulatedController(Watcher):
    """One controller over all its lives.

    Attributes:
        state: the cluster state as this controller knows it.
        epoch: its controller epoch while it leads, else 0.
    """

    def __init__(self, controller_id: int, schedule: Schedule, network: Network, etcd: FakeEtcd) -> None:
        super().__init__(f"controller-{controller_id}", schedule)
        self.controller_id = controller_id
        self._network = network
        self._etcd = etcd
        self.state = ClusterState()
        self.epoch = 0

    def on_start(self) -> None:
        """Read the cluster state, then campaign."""
        self.state = ClusterState()
        self._end_term()
        self._is_campaigning = False
        self._list_state()

    def _list_state(self) -> None:
        def listed(state: ClusterState | None) -> None:
            if state is None:
                self._list_state()
                return
            self.on_state(state)
            self._lease = LeaseKeeper(
                self,
                self._network,
                self._etcd,
                on_granted=self._campaign,
                on_lapsed=self._end_term,
                resume=False,
            )

        self._network.call(self, self._etcd, self._etcd.list_state, self, listed, ATTEMPT_TIMEOUT_MS)

    # The term

    def _campaign(self) -> None:
        if self._is_campaigning or self.epoch or not self._lease.is_valid():
            return
        self._is_campaigning = True
        lease = self._lease.id

        def attempted(result: TransactionResult | None) -> None:
            self._is_campaigning = False
            if lease != self._lease.id or not self._lease.is_valid():
                self._campaign()
            elif result is None:
                self.after(RETRY_DELAY_MS, self._campaign)
            elif result.succeeded:
                self._begin_term(result.revision)
            elif result.reads[0] is not None and result.reads[0].lease == lease:
                self._begin_term(result.reads[0].created)
            else:
                self.after(RETRY_DELAY_MS, self._campaign_when_free)

        value = ControllerLeader(id=self.controller_id, epoch=0, rpc_address="")
        self._transact([Compare(CONTROLLER, ABSENT)], [Put(CONTROLLER, value, lease)], attempted)

    def _campaign_when_free(self) -> None:
        leader = self.state.controller
        if (
            leader is None or leader.id == self.controller_id
        ):  # elected by an attempt that was carried out late, perhaps
            self._campaign()
        elif not self.epoch:
            self.after(RETRY_DELAY_MS, self._campaign_when_free)

    def _begin_term(self, epoch: int) -> None:
        self.note("leads with controller epoch {}", epoch)
        self.epoch = epoch
        self._go_on_when_seen(epoch, epoch, self._attend)
        self.after(PREFERRED_ELECTION_INTERVAL_MS, self._elect_preferred_leaders, epoch)

    def _end_term(self) -> None:
        self.epoch = 0
        self._examined: ClusterState | None = None
        self._waiting: deque[tuple[Decision, Answer]] = deque()
        self._unseen: list[tuple[int, int, Callable[[], None]]] = []
        self._is_deciding = False
        self._is_attending = False

    def leads(self) -> bool:
        """Return whether this controller may believe that it leads."""
        return self.epoch != 0 and self._lease.is_valid()

    def _give_up(self) -> None:
        self.note("does not lead any more")
        for _, answer in self._waiting:
            answer(None)
        self._end_term()
        self._campaign_when_free()

    def on_state(self, state: ClusterState) -> None:
        """Take over a newer cluster state."""
        if state.revision <= self.state.revision:
            return
        self.state = state
        if self.epoch and state.revision >= self.epoch:
            if state.controller is None or state.controller.epoch != self.epoch:
                self._give_up()
            else:
                self._attend()
        self._tell_seen()

    # Changes, one at a time

    def _attend(self) -> None:
        """Do what the newest state makes necessary."""
        if not self._is_attending and self.leads():
            self._is_attending = True
            self._change(self._elections, self._attended)

    def _attended(self, examined: ClusterState | None) -> None:
        self._is_attending = False
        if examined is None:
            self.after(RETRY_DELAY_MS, self._attend)
        else:
            self._examined = examined
            if examined is not self.state:
                self._attend()

    def _change(self, decide: Decision, when_done: Answer) -> None:
        """Have a change made when those before it are done; `when_done` gets None if it failed."""
        self._waiting.append((decide, when_done))
        if not self._is_deciding:
            self._decide(self.epoch, CONFLICT_ATTEMPTS)

    def _decide(self, epoch: int, attempts: int) -> None:
        if self.epoch != epoch or not self._waiting:
            return
        self._is_deciding = True
        decide, _ = self._waiting[0]
        puts, result = decide(self.state)
        if puts:
            self._write(epoch, puts, result, attempts, answer_was_lost=False)
        else:
            self._done(epoch, result)

    def _done(self, epoch: int, result: Any) -> None:
        if self.epoch != epoch:
            return
        self._is_deciding = False
        _, when_done = self._waiting.popleft()
        when_done(result)
        if self.epoch == epoch and self._waiting and not self._is_deciding:
            self._decide(epoch, CONFLICT_ATTEMPTS)

    def _write(self, epoch: int, puts: Sequence[Put], result: Any, attempts: int, *, answer_was_lost: bool) -> None:
        if not self.leads() or self.epoch != epoch:
            return
        compares = self.compares(epoch, puts)

        def attempted(outcome: TransactionResult | None) -> None:
            if self.epoch != epoch:
                return
            if outcome is None:
                self.after(
                    RETRY_DELAY_MS,
                    lambda: self._write(epoch, puts, result, attempts, answer_was_lost=True),
                )
            elif outcome.succeeded:
                self._go_on_when_seen(epoch, outcome.revision, lambda: self._done(epoch, result))
            elif outcome.reads[0] is None or outcome.reads[0].created != epoch:
                self._give_up()
            elif answer_was_lost and _holds(outcome, puts):
                revision = max(entry.modified for entry in outcome.reads[1:] if entry)
                self._go_on_when_seen(epoch, revision, lambda: self._done(epoch, result))
            else:
                self._conflict(epoch, outcome, attempts)

        self._transact(compares, puts, attempted)

    def compares(self, epoch: int, puts: Sequence[Put]) -> list[Compare]:
        """Return what a write of this term depends on."""
        return [
            Compare(CONTROLLER, epoch, created=True),
            *(Compare(put.key, _replaced_revision(put.value)) for put in puts),
            *(Compare(key, revision, created=True) for put in puts for key, revision in put.depends_on),
        ]

    def _conflict(self, epoch: int, outcome: TransactionResult, attempts: int) -> None:
        if not attempts:
            self._done(epoch, None)
            return
        revision = max((entry.modified for entry in outcome.reads[1:] if entry), default=0)
        self._go_on_when_seen(epoch, revision, lambda: self._decide(epoch, attempts - 1))

    def _go_on_when_seen(self, epoch: int, revision: int, action: Callable[[], None]) -> None:
        """Do something, if the term lasts, when the own state shows a revision."""
        if self.epoch != epoch:
            return
        if self.state.revision >= revision:
            action()
        else:
            self._unseen.append((epoch, revision, action))

    def _tell_seen(self) -> None:
        unseen, self._unseen = self._unseen, []
        for waiting in unseen:
            self._go_on_when_seen(*waiting)

    def _transact(self, compares: Sequence[Compare], puts: Sequence[Put], when_over: Answer) -> None:
        transaction = Transaction(compares, puts, [CONTROLLER, *(put.key for put in puts if put.key != CONTROLLER)])
        self._network.call(self, self._etcd, self._etcd.transact, transaction, when_over, ATTEMPT_TIMEOUT_MS)

    # Decisions

    def _elections(self, state: ClusterState) -> tuple[list[Put], Any]:
        elected = leader_election.elections(
            leader_election.partitions_to_examine(self._examined, state), _standings(state), rules_of=rules_of
        )
        registrations = due_registrations(state.brokers, state.registrations)
        puts = [_partition_put(state, partition) for partition in elected]
        return puts + [Put(("registration", one.broker_id), one) for one in registrations], state

    def _elect_preferred_leaders(self, epoch: int) -> None:
        if self.epoch != epoch:
            return

        def decide(state: ClusterState) -> tuple[list[Put], Any]:
            elected = preferred_leaders.due_elections(
                state.topics.values(), _standings(state), rules_of=rules_of, imbalance_percentage=10
            )
            return [_partition_put(state, partition) for partition in elected], True

        if self.leads():
            self._change(decide, lambda _result: None)
        self.after(PREFERRED_ELECTION_INTERVAL_MS, self._elect_preferred_leaders, epoch)

    # Requests

    def on_alter_partitions(self, request: tuple[int, int, IsrChange], answer: Answer) -> None:
        """Answer a leader's proposal with an error code and the revision that shows the outcome."""
        broker_id, broker_epoch, change = request

        def decide(state: ClusterState) -> tuple[list[Put], Any]:
            broker = state.brokers.get(broker_id)
            if broker is None or broker.epoch != broker_epoch:
                return [], (ErrorCode.stale_broker_epoch, 0)
            (plan,) = isr_changes.plan_isr_changes(
                broker_id, broker_epoch, [change], state.topics_by_id, _standings(state), rules_of=rules_of
            )
            if plan.partition is None:
                return [], plan.result.error_code
            former = state.topics_by_id[change.topic_id].partitions[change.index]
            joining = [state.brokers[member] for member in plan.partition.isr if member not in former.isr]
            put = _partition_put(state, plan.partition)
            depends_on = tuple((("broker", member.id), member.epoch) for member in joining)
            return [put._replace(depends_on=depends_on)], plan.result.error_code

        newest = max(broker_epoch, change.partition_epoch, *(member.broker_epoch for member in change.isr))
        self._go_on_when_seen(self.epoch, newest, lambda: self._serve(decide, answer))

    def on_reassign(self, request: Reassignment, answer: Answer) -> None:
        """Begin or cancel a reassignment."""

        def decide(state: ClusterState) -> tuple[list[Put], Any]:
            (plan,) = reassignment.plan_reassignments(
                [request],
                state,
                _standings(state),
                rules_of=rules_of,
                allow_replication_factor_change=True,
            )
            puts = [_partition_put(state, plan.partition)] if plan.partition is not None else []
            return puts, plan.result.error_code

        self._serve(decide, answer)

    def on_elect(self, request: tuple[ElectionType, TopicPartition], answer: Answer) -> None:
        """Hold an election that somebody asks for."""
        type_, name = request

        def decide(state: ClusterState) -> tuple[list[Put], Any]:
            (plan,) = preferred_leaders.plan_elections(type_, [name], state, _standings(state), rules_of=rules_of)
            puts = [_partition_put(state, plan.partition)] if plan.partition is not None else []
            return puts, plan.result.error_code

        self._serve(decide, answer)

    def on_configure(self, configs: dict[str, str], answer: Answer) -> None:
        """Change the topic's settings."""

        def decide(state: ClusterState) -> tuple[list[Put], Any]:
            topic = state.topics.get("t")
            if topic is None:
                return [], ErrorCode.unknown_topic_or_partition
            answered = AlteredResource(type=ConfigResourceType.TOPIC, name=topic.name)
            plan = ConfigPlan(answered, TopicTarget(topic.name), configs)
            cleared = [_partition_put(state, partition) for partition in partitions_to_clear(plan, state)]
            return [*cleared, Put(("topic", topic.name), replace(topic, configs=configs))], ErrorCode.none

        self._serve(decide, answer)

    def _serve(self, decide: Decision, answer: Answer) -> None:
        if not self.leads():
            answer(NOT_LEADING)
            return

        def done(result: Any) -> None:
            if result is None:
                answer(NOT_LEADING)
            else:
                answer(result if isinstance(result, tuple) else (result, self.state.revision))

        self._change(decide, done)


rules_of = rules_of_topics({}, TopicRules())


def _standings(state: ClusterState) -> Standings:
    return standings(state.brokers, state.registrations)


def _partition_put(state: ClusterState, partition: PartitionState) -> Put:
    return Put(("partition", state.topics_by_id[partition.topic_id].name, partition.index), partition)


def _replaced_revision(value: Any) -> int:
    if isinstance(value, PartitionState):
        return value.partition_epoch
    return value.mod_revision if isinstance(value, Topic) else value.revision


def _holds(outcome: TransactionResult, puts: Sequence[Put]) -> bool:
    """Return whether the keys hold what was written."""
    return all(
        entry is not None and entry.value == put.value for entry, put in zip(outcome.reads[1:], puts, strict=True)
    )
