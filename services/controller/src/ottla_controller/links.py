"""What creating and changing links, linked topics and their promotion comes to; pure.

A linked partition follows its source: its leader takes batches from there, leader epochs included, and none from
clients. Two rules make that safe:

- The leader epoch here is never below that of a batch in the log, since clients reject metadata that is older than
  what they have read. Leaders ask for it to be raised before they append (`plan_raises`).
- Promotion ends the following and raises the leader epoch in one change of the partition. The new epoch is far above
  (`PROMOTION_LEAP`): the source may hold elections after it was given up, and what it writes then must not bear an
  epoch that is used here for other records.

Topics are followed under the names they have in the source and must not exist here before. So no topic can follow
itself through other clusters.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ottla_controller.broker_standing import Standings
from ottla_controller.partition_change import has_valid_leader
from ottla_controller.topics import CreationPlan, TopicDefaults, added_partitions, plan_creations
from ottla_core.cluster.controller_api import NewPartitions, NewTopic
from ottla_core.cluster.link_api import (
    UNLIMITED,
    LeaderEpochRaise,
    LinkChange,
    LinkedTopicResult,
    MorePartitions,
    NewLink,
    NewLinkedTopic,
    PromotedPartition,
)
from ottla_core.cluster.link_properties import follows_topic, link_properties, matches
from ottla_core.cluster.model import NO_EPOCH, ClusterState, Link, PartitionState, Topic, TopicOrigin
from ottla_core.errors import (
    InvalidPartitions,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla_core.group_shards import GROUP_TOPIC
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.promotion import PROMOTION_LEAP
from ottla_core.topic_name import check_topic_name

LEADER_EPOCH_MAX = 2**31 - 1
LINKS_MAX = 100
PROMOTED_NAMES_BYTES_MAX = 512 * 1024
"""Of the names that a link remembers; etcd takes values of 1.5 MiB."""


class UnknownLink(InvalidRequest):
    """There is no link of that name."""


@dataclass(frozen=True, slots=True)
class LinkedTopicPlan:
    """The answer for one linked topic and, unless it is refused or done already, what to write."""

    result: LinkedTopicResult
    topic: Topic | None = None
    added: tuple[PartitionState, ...] = ()


@dataclass(frozen=True, slots=True)
class PromotionPlan:
    """The link and partitions as they shall be, the topics that then follow no longer, and the answer.

    The link is to be written first: it remembers the topics also if the promotion is cut short.
    """

    link: Link
    partitions: tuple[PartitionState, ...]
    topics: tuple[Topic, ...]
    results: tuple[PromotedPartition, ...]


def is_linked(topic: Topic) -> bool:
    """Return whether a partition of a topic follows a source."""
    return any(partition.link is not None for partition in topic.partitions)


def find_link(name: str, state: ClusterState) -> Link:
    """Return a link.

    Raises:
        UnknownLink: there is none.
    """
    link = state.links.get(name)
    if link is None:
        raise UnknownLink(f"there is no link '{name}'")
    return link


def plan_link(new: NewLink, state: ClusterState) -> Link | None:
    """Return the link to write, or None if it is there already by this very request.

    Raises:
        InvalidRequest, InvalidTopic, PolicyViolation, TopicAlreadyExists: it is refused.
    """
    link = new.link
    existing = state.links.get(link.name)
    if existing is not None and existing.id == link.id:
        return None
    if existing is not None:
        raise PolicyViolation(f"link '{link.name}' exists already")
    if len(state.links) >= LINKS_MAX:
        raise PolicyViolation(f"a cluster may have at most {LINKS_MAX} links")
    check_topic_name(link.name)
    _check_link(link, state)
    matching = [name for name in new.matching_topics if follows_topic(link, name)]
    _check_overlap(link, matching, state)
    for back in new.source_links:
        if back.source_cluster_id == state.cluster_id and (
            set(back.topics) & set(link.topics) or any(matches(back.topics, name) for name in matching)
        ):
            raise PolicyViolation(
                f"links would form a cycle: link '{back.name}' of the source follows the same topics here"
            )
    present = [] if new.existing else [name for name in matching if name in state.topics]
    if present:
        others = f" and {len(present) - 1} others that match" if len(present) > 1 else ""
        raise TopicAlreadyExists(f"topic '{present[0]}'{others} exist here already; a linked topic must be new")
    return link


def plan_change(change: LinkChange, state: ClusterState) -> Link:
    """Return a link as it shall be.

    Raises:
        InvalidRequest, PolicyViolation: the change is refused.
    """
    link = find_link(change.name, state)
    settings = {**link.settings, **{name: value for name, value in change.settings.items() if value is not None}}
    for name, value in change.settings.items():
        if value is None:
            settings.pop(name, None)
    properties = {**link.properties, **change.properties}
    rate = link.bytes_per_second if change.bytes_per_second is None else change.bytes_per_second
    changed = replace(
        link,
        paused=link.paused if change.paused is None else change.paused,
        bytes_per_second=None if rate == UNLIMITED else rate,
        bootstrap_servers=change.bootstrap_servers or link.bootstrap_servers,
        topics=link.topics if change.topics is None else change.topics,
        groups=link.groups if change.groups is None else change.groups,
        settings=settings,
        properties={name: value for name, value in properties.items() if value is not None},
        promoted_topics=link.promoted_topics - set(change.forgotten_promotions),
    )
    _check_link(changed, state)
    if (changed.topics, changed.properties) != (link.topics, link.properties):
        _check_overlap(changed, [], state)
    return changed


def _check_overlap(link: Link, matching: Sequence[str], state: ClusterState) -> None:
    """See that no topic would follow two links.

    Args:
        link: as it shall be.
        matching: topics of its source that it follows, as far as they are known.
        state: the cluster that follows.

    Raises:
        PolicyViolation: another link follows such a topic or has one of the same patterns, or a topic that the link
            would follow is linked by another one.
    """
    for other in state.links.values():
        if other.id == link.id:
            continue
        linked = [topic.name for topic in topics_of(other, state) if is_linked(topic)]
        shared = [name for name in matching if follows_topic(other, name)]
        shared += sorted(name for name in linked if follows_topic(link, name))
        if shared or set(other.topics) & set(link.topics):
            what = f"topic '{shared[0]}'" if shared else f"the pattern '{min(set(other.topics) & set(link.topics))}'"
            raise PolicyViolation(f"links overlap: {what} belongs to link '{other.name}' already")


def plan_link_deletion(name: str, state: ClusterState) -> Link:
    """Return the link to forget.

    Raises:
        UnknownLink: there is none.
        PolicyViolation: topics follow it; they would stay read-only for ever.
    """
    link = find_link(name, state)
    linked = [topic.name for topic in topics_of(link, state) if is_linked(topic)]
    if linked:
        others = f" and {len(linked) - 1} other topics follow" if len(linked) > 1 else " follows"
        raise PolicyViolation(f"'{min(linked)}'{others} link '{name}'; promote or delete them first")
    return link


def topics_of(link: Link, state: ClusterState) -> Iterator[Topic]:
    """Yield the topics that follow a link, or did as far as they have not been promoted as a whole."""
    return (topic for topic in state.topics.values() if topic.origin and topic.origin.link_id == link.id)


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
        if new.name == GROUP_TOPIC or new.name.startswith("__"):
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


def plan_promotion(link_name: str, names: Sequence[str], state: ClusterState) -> PromotionPlan:
    """Return what ends the following of some topics, or of all of a link.

    Partitions that an attempt has promoted which was cut short stay as they are. To promote all is to give the source
    up: the link is paused, so that no new topic of the source is linked.

    Raises:
        UnknownLink: there is no such link.
        PolicyViolation: a topic does not follow it.
    """
    link = find_link(link_name, state)
    following = {topic.name: topic for topic in topics_of(link, state)}
    strangers = [name for name in names if name not in following]
    if strangers:
        raise PolicyViolation(f"'{strangers[0]}' does not follow link '{link_name}'")
    chosen = [following[name] for name in dict.fromkeys(names)] if names else list(following.values())
    promoted: dict[str, tuple[PartitionState, ...]] = {
        topic.name: tuple(_promoted(partition) for partition in topic.partitions) for topic in chosen
    }
    return PromotionPlan(
        link=_remembering(link, [topic.name for topic in chosen], pauses=not names),
        partitions=tuple(
            new
            for topic in chosen
            for former, new in zip(topic.partitions, promoted[topic.name], strict=True)
            if new is not former
        ),
        topics=tuple(replace(topic, partitions=promoted[topic.name], origin=None) for topic in chosen),
        results=tuple(
            PromotedPartition(topic=topic.name, index=partition.index, leader_epoch=partition.leader_epoch)
            for topic in chosen
            for partition in promoted[topic.name]
        ),
    )


def _remembering(link: Link, names: Iterable[str], *, pauses: bool) -> Link:
    """Return a link that knows which topics were promoted; where these are too many, it links no topics by itself."""
    promoted = link.promoted_topics | set(names)
    paused = link.paused or pauses
    if sum(len(name) for name in promoted) > PROMOTED_NAMES_BYTES_MAX:
        properties = {**link.properties, "refresh.topics.enabled": "false"}
        return replace(link, paused=paused, properties=properties)
    return replace(link, paused=paused, promoted_topics=promoted)


def _promoted(partition: PartitionState) -> PartitionState:
    if partition.link is None:
        return partition
    leap = partition.leader_epoch + PROMOTION_LEAP
    return replace(
        partition,
        link=None,
        set_aside_up_to=NO_EPOCH,
        leader_epoch=leap if leap <= LEADER_EPOCH_MAX else partition.leader_epoch + 1,
    )


def _following(partition: PartitionState, link: Link, source_leader_epoch: int) -> PartitionState:
    return replace(partition, link=link.id, leader_epoch=max(partition.leader_epoch, source_leader_epoch))


def _check_link(link: Link, state: ClusterState) -> None:
    problems = [
        *(["no bootstrap servers"] if not link.bootstrap_servers else []),
        *(["no id of the source cluster"] if not link.source_cluster_id else []),
        *(
            [f"bytes per second: {link.bytes_per_second} is not above 0"]
            if link.bytes_per_second is not None and link.bytes_per_second <= 0
            else []
        ),
        *(problem for pattern in (*link.topics, *link.groups) if (problem := _problem_of(pattern))),
    ]
    try:
        link_properties(link.properties)
    except InvalidRequest as error:
        problems.append(error.message)
    if problems:
        raise InvalidRequest(f"link '{link.name}': {'; '.join(problems)}")
    if link.source_cluster_id == state.cluster_id:
        raise InvalidRequest(f"link '{link.name}' would link this cluster to itself")


def _problem_of(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"the pattern '{pattern}': {error}"
    return None
