"""What creating, deleting and growing topics comes to. Pure.

Each function looks at a request and the cluster's state and returns one plan per item: the answer, and for an item
that is to be carried out the topic as it shall be. Nothing here writes. Plans are made one at a time as they are
asked for, since thousands take a while. Rules and codes are Kafka's (ReplicationControlManager, ControllerApis).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ottla_controller.effective_configs import BrokerConfigs, check_topic_configs
from ottla_controller.leader_election import first_state
from ottla_controller.placement import check_assignment, place_replicas
from ottla_core.cluster.controller_rpc.controller_api import (
    USE_DEFAULT,
    CreatedTopic,
    DeletedTopic,
    GrownTopic,
    NewPartitions,
    NewTopic,
    TopicReference,
)
from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic
from ottla_core.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.shards import SHARDED_TOPICS
from ottla_core.topic_name import canonical_topic_name, check_topic_name

PARTITIONS_PER_REQUEST_MAX = 10_000
"""Partitions that one request may create, and topics that one may name. Source: Kafka's ReplicationControlManager."""

PARTITIONS_PER_CLUSTER_MAX = 200_000
"""Every process of the cluster keeps all partitions in memory and every election looks at each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """What a topic gets that does not say."""

    partition_count: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class CreationPlan:
    """The answer to one creation and, unless it is refused or done already, the topic to write."""

    result: CreatedTopic
    topic: Topic | None = None


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """The answer to one deletion and, unless it is refused, the topic to delete."""

    result: DeletedTopic
    topic: Topic | None = None


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    """The answer to one growth and, unless it is refused, the topic with its partitions old and new."""

    result: GrownTopic
    topic: Topic | None = None
    added: tuple[PartitionState, ...] = ()


def plan_creations(
    requested: Sequence[NewTopic], state: ClusterState, defaults: TopicDefaults
) -> Iterator[CreationPlan]:
    """Yield one plan per requested topic, in order.

    Raises:
        PolicyViolation: they have more partitions than a request may create or the cluster may have.
    """
    _check_partition_count((_wanted_count(new, defaults) for new in requested), state)
    repeated = _repeated(topic.name for topic in requested)
    taken = {canonical_topic_name(name): name for name in state.topics}
    for new in requested:
        try:
            if new.name in repeated:
                raise InvalidRequest(f"Topic '{new.name}' appears more than once in the request.")
            existing = state.topics.get(new.name)
            if existing is not None and existing.id == new.topic_id:
                yield CreationPlan(_created(existing))
                continue
            if new.topic_id in state.deleted_topics:
                # A repetition that comes late would bring the topic back, with the id of deleted logs.
                raise UnknownTopicId(f"Topic '{new.name}' was created by this request and has been deleted since.")
            _check_name(new.name, state.topics, taken)
            topic = _build(new, state, defaults)
        except KafkaError as error:
            yield CreationPlan(CreatedTopic(name=new.name, error_code=error.code, error_message=error.message))
        else:
            taken[canonical_topic_name(new.name)] = new.name
            yield CreationPlan(_created(topic), topic)


def plan_deletions(requested: Sequence[TopicReference], state: ClusterState) -> Iterator[DeletionPlan]:
    """Yield one plan per topic named, in order.

    Raises:
        PolicyViolation: more topics are named than a request may delete.
    """
    if len(requested) > PARTITIONS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"A request may delete at most {PARTITIONS_PER_REQUEST_MAX} topics; this one names {len(requested)}."
        )
    doomed: set[str] = set()
    for reference in requested:
        try:
            topic = _find(reference, state)
            if topic.name in doomed:
                raise InvalidRequest(f"Topic '{topic.name}' appears more than once in the request.")
        except KafkaError as error:
            result = DeletedTopic(
                name=reference.name,
                topic_id=reference.topic_id or ZERO_UUID,
                error_code=error.code,
                error_message=error.message,
            )
            yield DeletionPlan(result)
        else:
            doomed.add(topic.name)
            yield DeletionPlan(DeletedTopic(name=topic.name, topic_id=topic.id), topic)


def plan_growths(requested: Sequence[NewPartitions], state: ClusterState) -> Iterator[GrowthPlan]:
    """Yield one plan per topic named, in order.

    Raises:
        PolicyViolation: they get more partitions than a request may create or the cluster may have.
    """
    _check_partition_count((_added_count(new, state) for new in requested), state)
    repeated = _repeated(topic.topic for topic in requested)
    for new in requested:
        try:
            if new.topic in repeated:
                raise InvalidRequest(f"Topic '{new.topic}' appears more than once in the request.")
            topic = _find(TopicReference(name=new.topic), state)
            if any(partition.link is not None for partition in topic.partitions):
                raise PolicyViolation(
                    f"'{new.topic}' follows a topic of another cluster and gets its partitions from there"
                )
            added = added_partitions(new, topic, state)
        except KafkaError as error:
            yield GrowthPlan(GrownTopic(topic=new.topic, error_code=error.code, error_message=error.message))
        else:
            grown = replace(topic, partitions=topic.partitions + added)
            yield GrowthPlan(GrownTopic(topic=new.topic), grown, added)


def _created(topic: Topic) -> CreatedTopic:
    return CreatedTopic(
        name=topic.name,
        topic_id=topic.id,
        partition_count=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=topic.configs,
    )


def _wanted_count(new: NewTopic, defaults: TopicDefaults) -> int:
    if new.assignments:
        return len(new.assignments)
    return defaults.partition_count if new.partition_count == USE_DEFAULT else new.partition_count


def _added_count(new: NewPartitions, state: ClusterState) -> int:
    topic = state.topics.get(new.topic)
    return 0 if topic is None else new.total_count - len(topic.partitions)


def _check_partition_count(counts: Iterable[int], state: ClusterState) -> None:
    """Refuse more partitions than can be decided on at once; a topic counts as one even if it will be refused."""
    wanted = sum(max(1, count) for count in counts)
    if wanted > PARTITIONS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"A request may create at most {PARTITIONS_PER_REQUEST_MAX} partitions; this one asks for {wanted}."
        )
    present = sum(len(topic.partitions) for topic in state.topics.values())
    if present + wanted > PARTITIONS_PER_CLUSTER_MAX:
        raise PolicyViolation(
            f"A cluster may have at most {PARTITIONS_PER_CLUSTER_MAX} partitions; this one has {present}, and"
            f" {wanted} more are asked for."
        )


def _check_name(name: str, existing: Mapping[str, Topic], taken: Mapping[str, str]) -> None:
    """Refuse a name that cannot be a new topic's; `taken` has the names in use by their canonical form."""
    check_topic_name(name)
    if name in existing:
        raise TopicAlreadyExists(f"Topic '{name}' already exists.")
    other = taken.get(canonical_topic_name(name))
    if other is not None:
        raise InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")


def _build(new: NewTopic, state: ClusterState, defaults: TopicDefaults) -> Topic:
    replicas = _assigned(new, state) if new.assignments else _placed(new, state, defaults)
    return Topic(
        name=new.name,
        id=new.topic_id,
        partitions=tuple(
            first_state(new.topic_id, index, broker_ids, state.brokers) for index, broker_ids in enumerate(replicas)
        ),
        configs=_checked_configs(new.configs, state.broker_configs),
    )


def _checked_configs(configs: Mapping[str, str | None], broker_configs: BrokerConfigs) -> Mapping[str, str]:
    given = {name: value for name, value in configs.items() if value is not None}
    if len(given) != len(configs):
        nulls = ", ".join(name for name, value in configs.items() if value is None)
        raise InvalidConfig(f"Null value not supported for topic configs: {nulls}")
    check_topic_configs(given, broker_configs)
    return given


def _assigned(new: NewTopic, state: ClusterState) -> list[tuple[int, ...]]:
    if new.replication_factor != USE_DEFAULT or new.partition_count != USE_DEFAULT:
        raise InvalidRequest(
            "With a replica assignment, partition count and replication factor must both be -1; they follow "
            "from the assignment."
        )
    by_index: dict[int, tuple[int, ...]] = {}
    replication_factor: int | None = None
    for assignment in new.assignments:
        if assignment.index in by_index:
            raise InvalidReplicaAssignment(f"Partition {assignment.index} has more than one assignment.")
        check_assignment(assignment.broker_ids, state.brokers, replication_factor)
        replication_factor = len(assignment.broker_ids)
        by_index[assignment.index] = assignment.broker_ids
    if by_index.keys() != set(range(len(by_index))):
        raise InvalidReplicaAssignment(
            f"Assigned partitions must be numbered from 0 without gaps, not {sorted(by_index)}."
        )
    return [by_index[index] for index in range(len(by_index))]


def _placed(new: NewTopic, state: ClusterState, defaults: TopicDefaults) -> list[tuple[int, ...]]:
    if new.replication_factor == 0 or new.replication_factor < USE_DEFAULT:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 for the default.")
    if new.partition_count == 0 or new.partition_count < USE_DEFAULT:
        raise InvalidPartitions("Number of partitions must be larger than 0, or -1 for the default.")
    count = defaults.partition_count if new.partition_count == USE_DEFAULT else new.partition_count
    factor = defaults.replication_factor if new.replication_factor == USE_DEFAULT else new.replication_factor
    return place_replicas(state.brokers, partitions=range(count), replication_factor=factor, start=new.topic_id.int)


def added_partitions(new: NewPartitions, topic: Topic, state: ClusterState) -> tuple[PartitionState, ...]:
    """Return the partitions that a topic gets besides those that it has.

    Raises:
        KafkaError: it cannot get them.
    """
    present = len(topic.partitions)
    if topic.name in SHARDED_TOPICS:
        # Which shard keeps a group depends on their number: all groups would be without their offsets at once.
        raise InvalidPartitions(f"The number of partitions of '{topic.name}' cannot be changed.")
    if new.total_count <= present:
        raise InvalidPartitions(
            f"Topic '{topic.name}' has {present} partition(s); {new.total_count} would not be an increase."
        )
    factor = len(topic.partitions[0].replicas)
    indexes = range(present, new.total_count)
    if new.assignments:
        if len(new.assignments) != len(indexes):
            raise InvalidReplicaAssignment(
                f"{len(indexes)} partition(s) are to be added, but {len(new.assignments)} have an assignment."
            )
        for broker_ids in new.assignments:
            check_assignment(broker_ids, state.brokers, factor)
        replicas = list(new.assignments)
    else:
        replicas = place_replicas(state.brokers, partitions=indexes, replication_factor=factor, start=topic.id.int)
    return tuple(
        first_state(topic.id, index, broker_ids, state.brokers)
        for index, broker_ids in zip(indexes, replicas, strict=True)
    )


def _find(reference: TopicReference, state: ClusterState) -> Topic:
    if reference.topic_id is not None:
        by_id = state.topics_by_id.get(reference.topic_id)
        if by_id is None:
            raise UnknownTopicId("This server does not host a topic with this id.")
        return by_id
    by_name = state.topics.get(reference.name or "")
    if by_name is None:
        raise UnknownTopicOrPartition(f"Topic '{reference.name}' does not exist.")
    return by_name


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1}
