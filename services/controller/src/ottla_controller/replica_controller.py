"""What the leading controller does about replicas: who leads, who is in sync, and where partitions live.

The rules are pure (`partition_change` and those that use it); here their outcomes are written. What follows from
brokers that came, went, restarted or lost data is written before what is remembered of these brokers
(`BrokerRegistration`), so that a controller that takes over in between finds the same work to do.
"""

from collections.abc import Sequence

import structlog

from ottla_controller.broker_standing import Standings, due_registrations, standings
from ottla_controller.change_sequence import ChangeSequence
from ottla_controller.isr_changes import plan_isr_changes
from ottla_controller.leader_election import elections, partitions_to_examine
from ottla_controller.partition_change import RulesOf, TopicRules
from ottla_controller.preferred_leaders import due_elections, plan_elections
from ottla_controller.reassignment import plan_reassignments
from ottla_controller.state_writes import StateWrites
from ottla_controller.topic_rules import rules_of_topics
from ottla_controller.unregistration import plan_unregistration
from ottla_core.cluster.controller_api import (
    AlteredIsr,
    AlteredReassignment,
    ElectedLeader,
    ElectionType,
    IsrChange,
    Reassignment,
)
from ottla_core.cluster.model import NO_LEADER, ClusterState, Member, PartitionState
from ottla_core.errors import StaleBrokerEpoch
from ottla_core.topic_partition import TopicPartition

log = structlog.get_logger("controller")


class ReplicaController:
    """Decides about replicas, for one term."""

    def __init__(self, changes: ChangeSequence, writes: StateWrites, default_rules: TopicRules) -> None:
        self._changes = changes
        self._writes = writes
        self._default_rules = default_rules
        self._examined: ClusterState | None = None
        changes.attend_first = self._attend_to_brokers

    async def elect_leaders(self) -> None:
        """Give every partition the leader and in-sync set that the live brokers allow, and remember the brokers."""
        await self._changes.make(self._examine)

    async def _attend_to_brokers(self) -> None:
        """Draw the consequences of brokers that came or went, before anything else is decided.

        A replica must not be placed on a broker, or become in sync there, before that broker is remembered: if it
        came back with an empty disk, nobody would know that it had another one.
        """
        if self._examined is None or self._examined.brokers is not self._changes.state.brokers:
            await self._examine()

    async def _examine(self) -> None:
        state = self._changes.state
        elected = elections(
            partitions_to_examine(self._examined, state), self._standings(), rules_of=self._rules_of()
        )
        registrations = due_registrations(state.brokers, state.registrations)
        await self._changes.write(
            [
                *(self._writes.partition(partition) for partition in elected),
                *(self._writes.registration(registration) for registration in registrations),
            ]
        )
        self._examined = state
        if elected:
            without = sum(partition.leader == NO_LEADER for partition in elected)
            log.info("leaders elected", partitions=len(elected), without_leader=without)

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrChange]
    ) -> tuple[list[AlteredIsr], int]:
        """Judge the in-sync sets that a leader proposes; return the results and the revision that contains them.

        Raises:
            StaleBrokerEpoch: the broker is not registered under this epoch.
        """
        await self._changes.wait_for_revision(_newest_revision(broker_epoch, proposals))

        async def change() -> tuple[list[AlteredIsr], int]:
            state = self._changes.state
            broker = state.brokers.get(broker_id)
            if broker is None or broker.epoch != broker_epoch:
                raise StaleBrokerEpoch(f"broker {broker_id} is not registered under epoch {broker_epoch}")
            plans = plan_isr_changes(
                broker_id,
                broker_epoch,
                proposals,
                state.topics_by_id,
                self._standings(),
                rules_of=self._rules_of(),
            )
            await self._changes.write(
                [
                    self._writes.partition(plan.partition, _joining(plan.partition, state))
                    for plan in plans
                    if plan.partition is not None
                ]
            )
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change)

    async def hold_elections(
        self, type_: ElectionType, requested: Sequence[TopicPartition] | None
    ) -> tuple[list[ElectedLeader], int]:
        """Hold the elections somebody asks for; return the results and the revision that contains them."""

        async def change() -> tuple[list[ElectedLeader], int]:
            state = self._changes.state
            plans = plan_elections(type_, requested, state, self._standings(), rules_of=self._rules_of())
            elected = await self._write([plan.partition for plan in plans])
            log.info("leaders elected on request", type=type_.name, partitions=elected)
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change)

    async def rebalance_leaders(self, imbalance_percentage: int) -> None:
        """Give brokers that lead far fewer partitions than prefer them their leaderships back."""

        async def change() -> None:
            elected = due_elections(
                self._changes.state.topics.values(),
                self._standings(),
                rules_of=self._rules_of(),
                imbalance_percentage=imbalance_percentage,
            )
            if await self._write(elected):
                log.info("preferred leaders elected", partitions=len(elected))

        await self._changes.make(change)

    async def alter_reassignments(
        self, requested: Sequence[Reassignment], *, allow_replication_factor_change: bool
    ) -> tuple[list[AlteredReassignment], int]:
        """Begin, change or cancel reassignments; return the results and the revision that contains them."""

        async def change() -> tuple[list[AlteredReassignment], int]:
            plans = plan_reassignments(
                requested,
                self._changes.state,
                self._standings(),
                rules_of=self._rules_of(),
                allow_replication_factor_change=allow_replication_factor_change,
            )
            altered = await self._write([plan.partition for plan in plans])
            log.info("reassignments altered", partitions=altered)
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change)

    async def unregister_broker(self, broker_id: int) -> int:
        """Forget a broker; return the revision from which on it is unknown.

        Raises:
            BrokerIdNotRegistered: there is no such registration.
            InvalidRequest: the broker is live, or a partition's newest records are nowhere else.
        """

        async def change() -> int:
            partitions, registration = plan_unregistration(
                broker_id, self._changes.state, self._standings(), rules_of=self._rules_of()
            )
            await self._changes.write(
                [
                    *(self._writes.partition(partition) for partition in partitions),
                    self._writes.registration_deletion(registration),
                ]
            )
            log.info("broker unregistered", broker=broker_id)
            return self._changes.state.revision

        return await self._changes.make(change)

    def _standings(self) -> Standings:
        state = self._changes.state
        return standings(state.brokers, state.registrations)

    def _rules_of(self) -> RulesOf:
        return rules_of_topics(self._changes.state.broker_configs.get(None, {}), self._default_rules)

    async def _write(self, partitions: Sequence[PartitionState | None]) -> int:
        """Write what there is to write; returns how many that is."""
        writes = [self._writes.partition(partition) for partition in partitions if partition is not None]
        await self._changes.write(writes)
        return len(writes)


def _joining(partition: PartitionState, state: ClusterState) -> list[Member]:
    """Return the brokers that a partition's new state takes into the in-sync set."""
    former = state.topics_by_id[partition.topic_id].partitions[partition.index]
    return [state.brokers[broker_id] for broker_id in partition.isr if broker_id not in former.isr]


def _newest_revision(broker_epoch: int, proposals: Sequence[IsrChange]) -> int:
    """Return the latest revision that proposals refer to: epochs of brokers and partitions are revisions."""
    return max(
        broker_epoch,
        max((proposal.partition_epoch for proposal in proposals), default=0),
        max((member.broker_epoch for proposal in proposals for member in proposal.isr), default=0),
    )
