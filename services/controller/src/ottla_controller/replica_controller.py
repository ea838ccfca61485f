"""What the leading controller does about replicas: who leads, who is in sync, and where partitions live.

The rules are pure (`partition_change` and those that use it); here their outcomes are written. What follows from
brokers that came, went, restarted or lost data is written before what is remembered of these brokers
(`BrokerRegistration`), so that a controller that takes over in between finds the same work to do.
"""

from collections.abc import Sequence

import structlog
from kio.schema.errors import ErrorCode

from ottla_controller.broker_standing import Standings, due_registrations, standings
from ottla_controller.change_encoder import ChangeEncoder
from ottla_controller.change_sequence import ChangeSequence, StateKeptChanging
from ottla_controller.isr_changes import plan_isr_changes
from ottla_controller.leader_election import elections, partitions_to_examine
from ottla_controller.partition_change import RulesOf, TopicRules
from ottla_controller.preferred_leaders import due_elections, plan_elections
from ottla_controller.priority_lock import Urgency
from ottla_controller.reassignment import plan_reassignments
from ottla_controller.topic_rules import rules_of_topics
from ottla_controller.unregistration import plan_unregistration
from ottla_core.cluster.controller_rpc.controller_api import (
    AlteredIsr,
    AlteredReassignment,
    ElectedLeader,
    ElectionType,
    IsrChange,
    Reassignment,
)
from ottla_core.cluster.state.model import NO_LEADER, ClusterState, Member, PartitionState
from ottla_core.errors import StaleBrokerEpoch
from ottla_core.topic_partition import TopicPartition

log = structlog.get_logger("controller")


class ReplicaController:
    """Decides about replicas, for one term."""

    def __init__(self, changes: ChangeSequence, writes: ChangeEncoder, default_rules: TopicRules) -> None:
        self._changes = changes
        self._writes = writes
        self._default_rules = default_rules
        self._examined: ClusterState | None = None
        changes.attend_first = self._attend_to_brokers

    async def elect_leaders(self) -> None:
        """Give every partition the leader and in-sync set that the live brokers allow, and remember the brokers."""
        await self._changes.make(self._examine, urgency=Urgency.ELECTION)

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
        conflict = await self._changes.write_each([self._writes.partition(partition) for partition in elected])
        if conflict is not None:
            # A broker that is remembered as it is now counts as attended to, for every partition.
            raise conflict
        await self._changes.write([self._writes.registration(registration) for registration in registrations])
        self._examined = state
        if elected:
            without = sum(partition.leader == NO_LEADER for partition in elected)
            log.info("leaders elected", partitions=len(elected), without_leader=without)

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrChange], *, timeout_s: float | None = None
    ) -> tuple[list[AlteredIsr], int]:
        """Judge the in-sync sets that a leader proposes; return the results and the revision that contains them.

        Raises:
            StaleBrokerEpoch: the broker is not registered under this epoch.
        """
        await self._changes.wait_for_revision(_newest_revision(broker_epoch, proposals))
        settled: dict[int, AlteredIsr] = {}

        async def change() -> None:
            await self._settle_proposals(broker_id, broker_epoch, proposals, settled)

        try:
            await self._changes.make(change, urgency=Urgency.REPLICATION, timeout_s=timeout_s)
        except StateKeptChanging as error:
            log.warning("in-sync sets not decided", partitions=len(proposals) - len(settled), error=error.message)
        results = [settled.get(number) or _undecided(proposal) for number, proposal in enumerate(proposals)]
        return results, self._changes.state.revision

    async def _settle_proposals(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrChange], settled: dict[int, AlteredIsr]
    ) -> None:
        """Decide what is not settled yet; a conflict over one partition leaves the others settled.

        Raises:
            WriteConflict: some could not be written as decided.
        """
        state = self._changes.state
        broker = state.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            raise StaleBrokerEpoch(f"broker {broker_id} is not registered under epoch {broker_epoch}")
        numbers = [number for number in range(len(proposals)) if number not in settled]
        plans = plan_isr_changes(
            broker_id,
            broker_epoch,
            [proposals[number] for number in numbers],
            state.topics_by_id,
            self._standings(),
            rules_of=self._rules_of(),
        )
        writes = [
            self._writes.partition(plan.partition, _joining(plan.partition, state)) if plan.partition else None
            for plan in plans
        ]
        conflict = await self._changes.write_each([write for write in writes if write is not None])
        for number, plan, write in zip(numbers, plans, writes, strict=True):
            if write is None or conflict is None or write.key not in conflict.keys:
                settled[number] = plan.result
        if conflict is not None:
            raise conflict

    async def hold_elections(
        self,
        type_: ElectionType,
        requested: Sequence[TopicPartition] | None,
        *,
        timeout_s: float | None = None,
    ) -> tuple[list[ElectedLeader], int]:
        """Hold the elections somebody asks for; return the results and the revision that contains them."""

        async def change() -> tuple[list[ElectedLeader], int]:
            state = self._changes.state
            plans = plan_elections(type_, requested, state, self._standings(), rules_of=self._rules_of())
            elected = await self._write([plan.partition for plan in plans])
            log.info("leaders elected on request", type=type_.name, partitions=elected)
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

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
        self,
        requested: Sequence[Reassignment],
        *,
        allow_replication_factor_change: bool,
        timeout_s: float | None = None,
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

        return await self._changes.make(change, timeout_s=timeout_s)

    async def unregister_broker(self, broker_id: int, *, timeout_s: float | None = None) -> int:
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

        return await self._changes.make(change, timeout_s=timeout_s)

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


def _undecided(proposal: IsrChange) -> AlteredIsr:
    """Return the answer to a proposal that could not be decided on the newest state; its leader asks again."""
    return AlteredIsr(
        topic_id=proposal.topic_id,
        index=proposal.index,
        error_code=ErrorCode.invalid_update_version,
        error_message="the partition, or a broker that was to join, kept changing",
    )


def _newest_revision(broker_epoch: int, proposals: Sequence[IsrChange]) -> int:
    """Return the latest revision that proposals refer to: epochs of brokers and partitions are revisions."""
    return max(
        broker_epoch,
        max((proposal.partition_epoch for proposal in proposals), default=0),
        max((member.broker_epoch for proposal in proposals for member in proposal.isr), default=0),
    )
