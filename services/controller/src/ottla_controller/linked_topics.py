"""What creating and growing linked topics comes to, having existing ones follow, and raising leader epochs. Pure.

The leader epoch here is never below that of a batch in the log, since clients reject metadata that is older than
what they have read. Leaders ask for it to be raised before they append (`plan_raises`).

Topics are followed under the names they have in the source and must not exist here before, unless they are said to
follow what has followed them. So no topic can follow itself through other clusters.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ottla_controller.broker_standing import Standings
from ottla_controller.cluster_links import find_link
from ottla_controller.partition_change import has_valid_leader
from ottla_controller.topics import CreationPlan, TopicDefaults, added_partitions, plan_creations
from ottla_core.cluster.controller_rpc.controller_api import NewPartitions, NewTopic
from ottla_core.cluster.controller_rpc.link_api import (
    LeaderEpochRaise,
    LinkedTopicResult,
    MorePartitions,
    NewLinkedTopic,
)
from ottla_core.cluster.state.link_properties import follows_topic
from ottla_core.cluster.state.model import ClusterState, Link, PartitionState, Topic, TopicOrigin
from ottla_core.errors import (
    InvalidPartitions,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.shards import INTERNAL_TOPICS

LEADER_EPOCH_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LinkedTopicPlan:
    """The answer for one linked topic and, unless it is refused or done already, what to write."""

    result: LinkedTopicResult
    topic: Topic | None = None
    added: tuple[PartitionState, ...] = ()


def plan_linked_topics(
    link_name: str, requested: Sequence[NewLinkedTopic], state: ClusterState, defaults: TopicDefaults
) -> list[LinkedTopicPlan]:
    """Return one plan per topic to create, in order.

    Raises:
        UnknownLink: there is no such link.
        PolicyViolation: they have more partitions than a request may create or the cluster may have.
    """
    link = find_link(link_name, state)
    by_name = {new.name: new for new in requested}
    plain = [
        NewTopic(
            name=new.name,
            partition_count=len(new.source_leader_epochs),
            replication_factor=new.replication_factor,
            configs=new.configs,
            topic_id=new.topic_id,
        )
        for new in requested
    ]
    return [_linked(plan, by_name[plan.result.name], link, state) for plan in plan_creations(plain, state, defaults)]


def _linked(plan: CreationPlan, new: NewLinkedTopic, link: Link, state: ClusterState) -> LinkedTopicPlan:
    origin = TopicOrigin(link_id=link.id, source_topic=new.source_topic, source_topic_id=new.source_topic_id)
    if plan.topic is None:
        present = state.topics.get(new.name)
        if present is not None and present.origin == origin:  # somebody else has had it linked
            return LinkedTopicPlan(LinkedTopicResult(topic=new.name))
        return LinkedTopicPlan(
            LinkedTopicResult(
                topic=new.name, error_code=plan.result.error_code, error_message=plan.result.error_message
            )
        )
    try:
        if new.name in INTERNAL_TOPICS or new.name.startswith("__"):
            raise InvalidTopic(f"'{new.name}' is internal to each cluster and cannot follow another one's")
        if not new.source_leader_epochs:
            raise InvalidPartitions(f"'{new.name}' has no partitions")
        _check_source_id(new)
        other = next(
            (each for each in state.links.values() if each is not link and follows_topic(each, new.name)), None
        )
        if other is not None:
            raise PolicyViolation(f"links overlap: topic '{new.name}' belongs to link '{other.name}' already")
    except KafkaError as error:
        return LinkedTopicPlan(LinkedTopicResult(topic=new.name, error_code=error.code, error_message=error.message))
    topic = replace(
        plan.topic,
        partitions=tuple(
            _following(partition, link, epoch)
            for partition, epoch in zip(plan.topic.partitions, new.source_leader_epochs, strict=True)
        ),
        origin=origin,
    )
    return LinkedTopicPlan(LinkedTopicResult(topic=new.name), topic)


def plan_following(link_name: str, requested: Sequence[NewLinkedTopic], state: ClusterState) -> list[LinkedTopicPlan]:
    """Return one plan per existing topic that shall follow one of the source, in order.

    Its leader epochs grow, so that who waits for a write to be replicated under a former one is not told that it is.

    Raises:
        UnknownLink: there is no such link.
    """
    link = find_link(link_name, state)
    plans: list[LinkedTopicPlan] = []
    for new in requested:
        try:
            plans.append(_turned(new, link, state))
        except KafkaError as error:
            result = LinkedTopicResult(topic=new.name, error_code=error.code, error_message=error.message)
            plans.append(LinkedTopicPlan(result))
    return plans


def _check_source_id(new: NewLinkedTopic) -> None:
    """Refuse to follow a topic that could not be told from a later one of its name."""
    if new.source_topic_id == ZERO_UUID:
        raise InvalidRequest(f"the source gives '{new.source_topic}' no topic id; it is older than Kafka 3.1")


def _turned(new: NewLinkedTopic, link: Link, state: ClusterState) -> LinkedTopicPlan:
    topic = state.topics.get(new.name)
    if topic is None:
        raise UnknownTopicOrPartition(f"Topic '{new.name}' does not exist.")
    if topic.name.startswith("__"):
        raise InvalidTopic(f"'{new.name}' is internal to each cluster and cannot follow another one's")
    _check_source_id(new)
    if len(new.source_leader_epochs) != len(topic.partitions):
        raise InvalidPartitions(
            f"'{new.name}' has {len(topic.partitions)} partitions, but {len(new.source_leader_epochs)} in the source"
        )
    if any(partition.link not in (None, link.id) for partition in topic.partitions):
        raise PolicyViolation(f"'{new.name}' follows another link; promote it first")
    origin = TopicOrigin(link_id=link.id, source_topic=new.source_topic, source_topic_id=new.source_topic_id)
    turned = tuple(
        replace(
            partition,
            link=link.id,
            leader_epoch=max(partition.leader_epoch + 1, new.source_leader_epochs[partition.index]),
            set_aside_up_to=partition.leader_epoch,
        )
        for partition in topic.partitions
        if partition.link is None
    )
    result = LinkedTopicResult(topic=new.name)
    if topic.origin == origin and not turned:
        return LinkedTopicPlan(result)
    return LinkedTopicPlan(result, replace(topic, origin=origin), turned)


def plan_more_partitions(requested: Sequence[MorePartitions], state: ClusterState) -> list[LinkedTopicPlan]:
    """Return one plan per linked topic that shall grow, in order; one that has grown already needs nothing."""
    plans: list[LinkedTopicPlan] = []
    for more in requested:
        try:
            plans.append(_grown(more, state))
        except KafkaError as error:
            result = LinkedTopicResult(topic=more.topic, error_code=error.code, error_message=error.message)
            plans.append(LinkedTopicPlan(result))
    return plans


def _grown(more: MorePartitions, state: ClusterState) -> LinkedTopicPlan:
    topic = state.topics.get(more.topic)
    if topic is None:
        raise UnknownTopicOrPartition(f"Topic '{more.topic}' does not exist.")
    link = state.link_of(topic.origin.link_id) if topic.origin is not None else None
    if link is None or not all(partition.link == link.id for partition in topic.partitions):
        raise PolicyViolation(f"'{more.topic}' does not follow a link, or no longer as a whole")
    wanted = len(more.source_leader_epochs)
    if wanted == len(topic.partitions):
        return LinkedTopicPlan(LinkedTopicResult(topic=more.topic))
    added = tuple(
        _following(partition, link, more.source_leader_epochs[partition.index])
        for partition in added_partitions(NewPartitions(topic=more.topic, total_count=wanted), topic, state)
    )
    grown = replace(topic, partitions=topic.partitions + added)
    return LinkedTopicPlan(LinkedTopicResult(topic=more.topic), grown, added)


def plan_raises(
    broker_id: int,
    broker_epoch: int,
    requested: Iterable[LeaderEpochRaise],
    state: ClusterState,
    standings: Standings,
) -> list[PartitionState]:
    """Return the partitions whose leader epochs are to be raised.

    What is outdated (another leader, another epoch, promoted meanwhile) is passed over: the leader finds out.
    """
    raised: list[PartitionState] = []
    for wanted in requested:
        topic = state.topics_by_id.get(wanted.topic_id)
        if topic is None or not 0 <= wanted.index < len(topic.partitions):
            continue
        partition = topic.partitions[wanted.index]
        is_of_leader = (
            partition.leader == broker_id
            and partition.leader_broker_epoch == broker_epoch
            and has_valid_leader(partition, standings)
        )
        if (
            is_of_leader
            and partition.link == wanted.link_id
            and partition.leader_epoch == wanted.leader_epoch
            and partition.leader_epoch < wanted.raised_to <= LEADER_EPOCH_MAX
        ):
            raised.append(replace(partition, leader_epoch=wanted.raised_to))
    return raised


def _following(partition: PartitionState, link: Link, source_leader_epoch: int) -> PartitionState:
    return replace(partition, link=link.id, leader_epoch=max(partition.leader_epoch, source_leader_epoch))
