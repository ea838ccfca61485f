"""Moving partitions to other brokers (KIP-455). Pure.

A reassignment begins by adding the new replicas to the old ones: `replicas` is the target followed by those that
will go, `adding` and `removing` say which are which. The new ones fetch, and when all target replicas are in sync,
whatever change brings that about also completes the reassignment (`partition_change.conclude`): the old ones are
dropped, and if the leader is among them another one leads. Until then the reassignment can be cancelled, or replaced
by another; both start from the replicas that the partition had before the first one. Each step is one write of one
partition, so there is nothing to resume after a crash.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ottla_controller.broker_standing import Standings
from ottla_controller.partition_change import RulesOf, TopicRules, conclude
from ottla_core.cluster.controller_rpc.controller_api import AlteredReassignment, Reassignment
from ottla_core.cluster.state.model import NO_LEADER, ClusterState, PartitionState, Topic
from ottla_core.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)


@dataclass(frozen=True, slots=True)
class ReassignmentPlan:
    """The answer to one reassignment and, unless it is refused or changes nothing, the state to write."""

    result: AlteredReassignment
    partition: PartitionState | None = None


def plan_reassignments(
    requested: Sequence[Reassignment],
    state: ClusterState,
    standings: Standings,
    *,
    rules_of: RulesOf,
    allow_replication_factor_change: bool,
) -> list[ReassignmentPlan]:
    """Return one plan per requested reassignment, in order."""
    times = Counter((reassignment.topic, reassignment.index) for reassignment in requested)
    known = state.brokers.keys() | state.registrations.keys()
    plans: list[ReassignmentPlan] = []
    for request in requested:
        result = AlteredReassignment(topic=request.topic, index=request.index)
        try:
            if times[request.topic, request.index] > 1:
                raise InvalidRequest(f"{request.topic}-{request.index} appears more than once in the request.")
            topic, partition = _find(request, state)
            rules = rules_of(topic)
            if request.replicas is None:
                altered = cancelled(partition, standings, rules)
            else:
                check_targets(request.replicas, partition, known, allow_factor_change=allow_replication_factor_change)
                altered = reassigned(partition, request.replicas, standings, rules)
        except KafkaError as error:
            plans.append(ReassignmentPlan(replace(result, error_code=error.code, error_message=error.message)))
        else:
            plans.append(ReassignmentPlan(result, None if altered is partition else altered))
    return plans


def is_being_reassigned(partition: PartitionState) -> bool:
    """Return whether a reassignment is going on."""
    return bool(partition.adding or partition.removing)


def reassigned(
    partition: PartitionState, targets: tuple[int, ...], standings: Standings, rules: TopicRules
) -> PartitionState:
    """Return the partition on its way to other replicas, or there already if all of them are in sync.

    Replicas that a reassignment still going on was adding, and that are not wanted any more, go at once. But where
    nobody else is in sync, those with every record stay until the end. They may be the only ones, also if they are
    away: what an eligible leader has lost is known only when it is back.
    """
    original = [broker_id for broker_id in partition.replicas if broker_id not in partition.adding]
    abandoned = [one for one in partition.adding if one not in targets]
    isr = tuple(broker_id for broker_id in partition.isr if broker_id not in abandoned)
    if not isr:
        original += [one for one in abandoned if one in partition.isr or one in partition.eligible_leaders]
        isr = partition.isr
    removing = tuple(broker_id for broker_id in original if broker_id not in targets)
    wanted = replace(
        partition,
        replicas=targets + removing,
        isr=isr,
        adding=tuple(broker_id for broker_id in targets if broker_id not in original),
        removing=removing,
    )
    return conclude(partition, wanted, standings, rules)


def cancelled(partition: PartitionState, standings: Standings, rules: TopicRules) -> PartitionState:
    """Return the partition with the replicas it had before its reassignment.

    Raises:
        NoReassignmentInProgress: there is none.
        InvalidReplicaAssignment: only replicas that would go are sure to have every record, or can lead.
    """
    if not is_being_reassigned(partition):
        raise NoReassignmentInProgress("No partition reassignment is in progress.")
    original = tuple(broker_id for broker_id in partition.replicas if broker_id not in partition.adding)
    isr = tuple(broker_id for broker_id in partition.isr if broker_id in original)
    wanted = replace(partition, replicas=original, isr=isr, adding=(), removing=())
    restored = conclude(partition, wanted, standings, rules)
    drops_records = not {*partition.isr, *partition.eligible_leaders}.issubset(original) and not rules.allows_unclean
    if restored.leader == NO_LEADER and (drops_records or partition.leader != NO_LEADER):
        raise InvalidReplicaAssignment(
            "The reassignment cannot be cancelled: only replicas that it has added are in sync or sure to have every "
            "record, and unclean leader election is not enabled."
        )
    return restored


def check_targets(
    targets: Sequence[int], partition: PartitionState, known: Collection[int], *, allow_factor_change: bool
) -> None:
    """Refuse replicas that a partition cannot have.

    Args:
        targets: the wanted replicas.
        partition: as it is.
        known: ids of all brokers that were ever registered; a replica may be on one that is away for now.
        allow_factor_change: the number of replicas may be another than now.

    Raises:
        InvalidReplicaAssignment: says what is wrong.
        InvalidReplicationFactor: there are more or fewer than now.
    """
    if not targets:
        raise InvalidReplicaAssignment("The replica list is empty; name at least one broker.")
    if len(set(targets)) != len(targets):
        raise InvalidReplicaAssignment(f"The replica list {list(targets)} names a broker more than once.")
    unknown = [broker_id for broker_id in targets if broker_id not in known]
    if unknown:
        raise InvalidReplicaAssignment(f"The replica list names brokers that are not registered: {unknown}")
    present = len(partition.replicas) - len(partition.removing)
    if not allow_factor_change and len(targets) != present:
        raise InvalidReplicationFactor(f"The replication factor would change from {present} to {len(targets)}.")


def _find(request: Reassignment, state: ClusterState) -> tuple[Topic, PartitionState]:
    topic = state.topics.get(request.topic)
    if topic is None or not 0 <= request.index < len(topic.partitions):
        raise UnknownTopicOrPartition(f"There is no partition {request.topic}-{request.index}.")
    return topic, topic.partitions[request.index]
