"""Elections that somebody asks for, and those that keep leaders where they were meant to be. Pure.

A partition's preferred leader is its first replica. After failures leaders gather on the brokers that stayed up; a
preferred election brings them back. It is held on request, and by itself for brokers that should lead much more than
they do. An unclean election is for partitions without a leader. Rules and codes are Kafka's
(ReplicationControlManager.electLeader, and KafkaController of its ZooKeeper times for the percentage).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from ottla_controller.broker_standing import Standings
from ottla_controller.partition_change import RulesOf, TopicRules, conclude, has_valid_leader
from ottla_core.cluster.controller_rpc.controller_api import ElectedLeader, ElectionType
from ottla_core.cluster.state.model import NO_LEADER, ClusterState, PartitionState, Topic
from ottla_core.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ottla_core.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class ElectionPlan:
    """The answer to one requested election and, unless it is refused, the state to write."""

    result: ElectedLeader
    partition: PartitionState | None = None


def plan_elections(
    type_: ElectionType,
    requested: Sequence[TopicPartition] | None,
    state: ClusterState,
    standings: Standings,
    *,
    rules_of: RulesOf,
) -> list[ElectionPlan]:
    """Return one plan per requested partition; with None one for each of the cluster that needs an election."""
    if requested is not None:
        return [_plan(type_, name, state, standings, rules_of) for name in dict.fromkeys(requested)]
    plans = (
        _plan(type_, TopicPartition(topic.name, partition.index), state, standings, rules_of)
        for topic in state.topics.values()
        for partition in topic.partitions
    )
    return [plan for plan in plans if plan.result.error_code is not ErrorCode.election_not_needed]


def due_elections(
    topics: Iterable[Topic], standings: Standings, *, rules_of: RulesOf, imbalance_percentage: int
) -> list[PartitionState]:
    """Return the new states that give brokers back what they should lead.

    Only brokers are looked after that lead less than they should of the partitions which prefer them: those where the
    share led by others is above the percentage.
    """
    preferring: Counter[int] = Counter()
    strayed: dict[int, list[tuple[Topic, PartitionState]]] = {}
    for topic in topics:
        for partition in topic.partitions:
            preferred = partition.replicas[0]
            preferring[preferred] += 1
            if partition.leader != preferred:
                strayed.setdefault(preferred, []).append((topic, partition))
    elected: list[PartitionState] = []
    for broker_id, partitions in strayed.items():
        if broker_id in standings.fit and len(partitions) * 100 > preferring[broker_id] * imbalance_percentage:
            for topic, partition in partitions:
                concluded = conclude(partition, partition, standings, rules_of(topic), prefer_first=True)
                if concluded.leader == broker_id:
                    elected.append(concluded)
    return elected


def _plan(
    type_: ElectionType, name: TopicPartition, state: ClusterState, standings: Standings, rules_of: RulesOf
) -> ElectionPlan:
    try:
        topic = state.topics.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            raise UnknownTopicOrPartition(f"There is no partition {name}.")
        partition = topic.partitions[name.partition]
        if type_ is ElectionType.PREFERRED:
            elected = _elect_preferred(name, partition, standings, rules_of(topic))
        else:
            elected = _elect_anyone(name, partition, standings, rules_of(topic))
    except KafkaError as error:
        return ElectionPlan(
            ElectedLeader(topic=name.topic, index=name.partition, error_code=error.code, error_message=error.message)
        )
    return ElectionPlan(ElectedLeader(topic=name.topic, index=name.partition), elected)


def _elect_preferred(
    name: TopicPartition, partition: PartitionState, standings: Standings, rules: TopicRules
) -> PartitionState:
    preferred = partition.replicas[0]
    if partition.leader == preferred and has_valid_leader(partition, standings):
        raise ElectionNotNeeded(f"{name} is led by its preferred leader, broker {preferred}, already.")
    elected = conclude(partition, partition, standings, rules, prefer_first=True)
    if elected.leader != preferred:
        raise PreferredLeaderNotAvailable(f"The preferred leader of {name}, broker {preferred}, is not in sync.")
    return elected


def _elect_anyone(
    name: TopicPartition, partition: PartitionState, standings: Standings, rules: TopicRules
) -> PartitionState:
    if has_valid_leader(partition, standings):
        raise ElectionNotNeeded(f"{name} has a leader, broker {partition.leader}.")
    elected = conclude(partition, partition, standings, replace(rules, allows_unclean=True))
    if elected.leader == NO_LEADER:
        raise EligibleLeadersNotAvailable(f"No replica of {name} is live.")
    return elected
