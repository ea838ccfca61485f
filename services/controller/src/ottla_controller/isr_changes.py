"""What becomes of the in-sync sets that leaders propose. Pure.

A proposal names the state that it replaces, by leader epoch and partition epoch, and every member of the set under
the registration that the leader knows it by. So nothing that was decided on an outdated view takes effect. An
accepted proposal is written even if it changes nothing: the new partition epoch makes sure that an earlier attempt of
the same leader, still under way somewhere, is refused when it arrives.

A replica, leader or not, may also report that its log is lost. It is taken out of the set and of the eligible
leaders, even if that leaves nobody; but only if the state is the one that it knows, or it may have caught up since.
Or it may report that its log has failed, takes no more records and may lack some after the next start. Then it makes
way for another live replica that has everything; where there is none it stays, since it can serve readers still.
A leader that was elected although it may lack records reports who has the longest log, once that is known; that one
leads. It is held to the newest state, like a proposal, and the one it names to its present registration.

A set that completes a reassignment, or that has somebody to take over from a departing leader, may come with another
leader; see `partition_change.conclude`. Rules and codes are Kafka's (ReplicationControlManager.alterPartition).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_controller.broker_standing import Standings
from ottla_controller.partition_change import (
    RulesOf,
    conclude,
    led_by_the_longest_log,
    without_failed_log,
    without_log,
)
from ottla_core.cluster.controller_rpc.controller_api import AlteredIsr, InSyncReplica, IsrChange
from ottla_core.cluster.state.model import NO_EPOCH, PartitionState, Topic
from ottla_core.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NotController,
    UnknownTopicId,
    UnknownTopicOrPartition,
)


@dataclass(frozen=True, slots=True)
class IsrPlan:
    """The answer to one proposal and, unless it is refused, the state to write."""

    result: AlteredIsr
    partition: PartitionState | None = None


def plan_isr_changes(
    leader_id: int,
    leader_broker_epoch: int,
    changes: Sequence[IsrChange],
    topics_by_id: Mapping[UUID, Topic],
    standings: Standings,
    *,
    rules_of: RulesOf,
) -> list[IsrPlan]:
    """Return one plan per proposal, in order.

    Args:
        leader_id: the broker that proposes or reports.
        leader_broker_epoch: its registration, which must be its present one.
        changes: what it proposes.
        topics_by_id: the topics as they are.
        standings: the live brokers.
        rules_of: what a topic's settings say.
    """
    plans: list[IsrPlan] = []
    planned: set[tuple[UUID, int]] = set()
    for change in changes:
        try:
            topic, partition = _find(change, topics_by_id)
            if (change.topic_id, change.index) in planned:
                raise InvalidUpdateVersion("the request has an earlier proposal for the same partition")
            if change.lost_log or change.failed_log:
                _check_is_newest(change, partition)
            elif change.longest_log:
                _check_leadership(change, partition, leader_id, leader_broker_epoch)
                _check_longest(change, partition, standings)
            else:
                _check_leadership(change, partition, leader_id, leader_broker_epoch)
                _check_members(change, partition, standings)
        except KafkaError as error:
            plans.append(IsrPlan(_result(change, error.code, error.message)))
            continue
        planned.add((change.topic_id, change.index))
        if change.lost_log:
            plans.append(IsrPlan(_result(change), without_log(leader_id, partition, standings, rules_of(topic))))
            continue
        if change.failed_log:
            successor = without_failed_log(leader_id, partition, standings, rules_of(topic))
            plans.append(IsrPlan(_result(change), None if successor is partition else successor))
            continue
        if change.longest_log:
            (longest,) = change.isr
            plans.append(IsrPlan(_result(change), led_by_the_longest_log(longest.broker_id, partition, standings)))
            continue
        wanted = replace(partition, isr=tuple(member.broker_id for member in change.isr))
        concluded = conclude(partition, wanted, standings, rules_of(topic))
        if concluded.leader == leader_id:
            plans.append(IsrPlan(_result(change), concluded))
        else:
            told = _result(change, ErrorCode.new_leader_elected, f"broker {concluded.leader} leads now")
            plans.append(IsrPlan(told, concluded))
    return plans


def _result(change: IsrChange, code: ErrorCode = ErrorCode.none, message: str | None = None) -> AlteredIsr:
    return AlteredIsr(topic_id=change.topic_id, index=change.index, error_code=code, error_message=message)


def _find(change: IsrChange, topics_by_id: Mapping[UUID, Topic]) -> tuple[Topic, PartitionState]:
    topic = topics_by_id.get(change.topic_id)
    if topic is None:
        raise UnknownTopicId(f"no topic has the id {change.topic_id}")
    if not 0 <= change.index < len(topic.partitions):
        raise UnknownTopicOrPartition(f"topic '{topic.name}' has no partition {change.index}")
    return topic, topic.partitions[change.index]


def _check_is_newest(change: IsrChange, partition: PartitionState) -> None:
    """See that a change was decided on the newest state."""
    _check_leader_epoch(change, partition)
    _check_partition_epoch(change, partition)


def _check_leader_epoch(change: IsrChange, partition: PartitionState) -> None:
    if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
        # The proposer knows more than this controller, which hence cannot be the leading one.
        raise NotController("the proposal is based on a later state than this controller's")
    if change.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpoch(f"the leader epoch is {partition.leader_epoch}, not {change.leader_epoch}")


def _check_partition_epoch(change: IsrChange, partition: PartitionState) -> None:
    if change.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersion(
            f"the partition epoch is {partition.partition_epoch}, not {change.partition_epoch}"
        )


def _check_leadership(change: IsrChange, partition: PartitionState, leader_id: int, leader_broker_epoch: int) -> None:
    """See that the proposer leads, and has proposed to change the newest state."""
    _check_leader_epoch(change, partition)
    if partition.leader != leader_id:
        raise InvalidRequest(f"broker {leader_id} does not lead the partition; broker {partition.leader} does")
    if partition.leader_broker_epoch != leader_broker_epoch:
        raise FencedLeaderEpoch(f"the leader was elected under its registration {partition.leader_broker_epoch}")
    _check_partition_epoch(change, partition)


def _check_members(change: IsrChange, partition: PartitionState, standings: Standings) -> None:
    proposed = [member.broker_id for member in change.isr]
    if len(set(proposed)) != len(proposed) or not set(proposed).issubset(partition.replicas):
        raise InvalidRequest(f"the in-sync set {proposed} repeats a broker or names one outside {partition.replicas}")
    if partition.leader not in proposed:
        raise InvalidRequest(f"the in-sync set {proposed} lacks the leader, broker {partition.leader}")
    for member in change.isr:
        if problem := _ineligibility(member, partition, standings):
            raise IneligibleReplica(f"broker {member.broker_id} cannot be in sync: {problem}")


def _check_longest(change: IsrChange, partition: PartitionState, standings: Standings) -> None:
    """See that the one replica which has the longest log can lead, under the registration that it was heard under."""
    if len(change.isr) != 1 or change.isr[0].broker_id not in partition.replicas:
        raise InvalidRequest(f"the replica with the longest log is one of {partition.replicas}")
    (longest,) = change.isr
    broker = standings.live.get(longest.broker_id)
    if broker is None or broker.epoch != longest.broker_epoch:
        raise IneligibleReplica(f"broker {longest.broker_id} is not registered under epoch {longest.broker_epoch}")


def _ineligibility(member: InSyncReplica, partition: PartitionState, standings: Standings) -> str:
    """Return why a replica cannot be in sync, or nothing.

    A leader that is shutting down may propose: that is how somebody gets ready to take over from it.
    """
    broker = standings.live.get(member.broker_id)
    if broker is None:
        return "it is not registered"
    is_unknown = member.broker_epoch == NO_EPOCH and member.broker_id in partition.isr  # has not fetched yet
    if broker.epoch != member.broker_epoch and not is_unknown:
        return f"it is registered under epoch {broker.epoch}, not {member.broker_epoch}"
    if broker.shutting_down and member.broker_id != partition.leader:
        return "it is shutting down"
    return ""
