"""What of a link's source is not so here: topics to link, partitions to add, settings to change. Pure.

What the keeper asks the controller for follows from the source's topics and the cluster state; the controller looks
at each again (`link_keeping.py` there). Nothing here ends or deletes anything: a topic that the source has no more
stays.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.client.cluster_metadata import NO_TOPIC_ID, TopicMetadata
from ottla_core.cluster.controller_rpc.link_api import LinkProblem, LinkProblemKind, NewLinkedTopic
from ottla_core.cluster.state.link_properties import follows_topic, properties_of
from ottla_core.cluster.state.linked_topic_settings import FOLLOWED, followed_settings, with_followed
from ottla_core.cluster.state.model import ClusterState, Link, Topic
from ottla_core.described_settings import TopicSetting

_GOING: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available})
"""Of topics that are being made or deleted in the source; the next look finds them as they are then."""

Settings = Mapping[str, Mapping[str, TopicSetting]]


@dataclass(frozen=True, slots=True)
class KeepingPlan:
    """What the controller is asked for, and what is not as in the source and stays so."""

    wanted: tuple[NewLinkedTopic, ...]
    problems: tuple[LinkProblem, ...]


def linked_topics(link: Link, state: ClusterState) -> dict[str, Topic]:
    """Return the topics here of which a partition follows a link, by the name of what they follow."""
    return {
        topic.origin.source_topic: topic
        for topic in state.topics.values()
        if topic.origin is not None
        and topic.origin.link_id == link.id
        and any(partition.link == link.id for partition in topic.partitions)
    }


def topics_to_describe(link: Link, source: Mapping[str, TopicMetadata], state: ClusterState) -> list[str]:
    """Return the topics of the source whose settings matter: linked ones, and those that are to be linked."""
    linked = linked_topics(link, state)
    keeps_settings = properties_of(link).sync_topic_configs_enabled
    return sorted(
        name
        for name, topic in source.items()
        if (name in linked and keeps_settings) or (name not in linked and _is_to_be_linked(topic, link, state))
    )


def plan_keeping(
    link: Link,
    source: Mapping[str, TopicMetadata],
    settings: Settings,
    state: ClusterState,
    draw_id: Callable[[], UUID],
) -> KeepingPlan:
    """Return what brings a link's topics in step with the source.

    Args:
        link: as it is now.
        source: all topics of the source.
        settings: of those that `topics_to_describe` has named, as far as the source tells them.
        state: the cluster that follows.
        draw_id: returns an id for a topic that is to be linked.
    """
    linked = linked_topics(link, state)
    wanted: list[NewLinkedTopic] = []
    problems = [
        LinkProblem(kind=LinkProblemKind.TOPIC_DELETED, name=topic.name, reason="the source has it no more")
        for name, topic in linked.items()
        if name not in source or source[name].error is ErrorCode.unknown_topic_or_partition
    ]
    for name, topic in sorted(source.items()):
        here = linked.get(name)
        if here is not None:
            if (change := _change_of(here, topic, settings.get(name), link)) is not None:
                wanted.append(change)
        elif _is_to_be_linked(topic, link, state) and name in settings:
            wanted.append(_wanted(topic, name, draw_id(), followed_settings(settings[name])))
        elif (problem := _problem_with(topic, link, state)) is not None:
            problems.append(problem)
    return KeepingPlan(tuple(wanted), tuple(problems))


def _is_to_be_linked(topic: TopicMetadata, link: Link, state: ClusterState) -> bool:
    return _matches(topic, link) and topic.name not in state.topics and _obstacle(topic, link) is None


def _matches(topic: TopicMetadata, link: Link) -> bool:
    return follows_topic(link, topic.name) and not topic.is_internal and topic.error not in _GOING


def _obstacle(topic: TopicMetadata, link: Link) -> LinkProblem | None:
    """Return what keeps a topic from being linked that is not here."""
    if topic.name in link.promoted_topics:
        return LinkProblem(
            kind=LinkProblemKind.TOPIC_PROMOTED,
            name=topic.name,
            reason="it was promoted; `ottla mirror link refresh --again` links it",
        )
    if topic.error is not ErrorCode.none:
        return _refused(topic.name, f"the source answers {topic.error.name}")
    if topic.id == NO_TOPIC_ID:
        return _refused(topic.name, "the source gives it no topic id; links need Kafka 3.1 or later")
    if not _is_whole(topic):
        return _refused(topic.name, "the source does not say how many partitions it has")
    return None


def _problem_with(topic: TopicMetadata, link: Link, state: ClusterState) -> LinkProblem | None:
    """Return why a topic that the link would follow is not linked."""
    if not _matches(topic, link):
        return None
    if topic.name not in state.topics:
        return _obstacle(topic, link) or _refused(topic.name, "the source does not tell its settings")
    if topic.name in link.promoted_topics:
        return None
    return LinkProblem(
        kind=LinkProblemKind.TOPIC_NOT_LINKED,
        name=topic.name,
        reason="a topic of that name is here and does not follow",
    )


def _change_of(
    here: Topic, topic: TopicMetadata, settings: Mapping[str, TopicSetting] | None, link: Link
) -> NewLinkedTopic | None:
    """Return what a linked topic lacks; nothing if the source has another topic of its name, or does not say."""
    assert here.origin is not None
    if topic.error is not ErrorCode.none or topic.id != here.origin.source_topic_id or not _is_whole(topic):
        return None
    present = {name: value for name, value in here.configs.items() if name in FOLLOWED}
    wanted = present if settings is None else followed_settings(settings)
    has_others = properties_of(link).sync_topic_configs_enabled and (
        with_followed(here.configs, wanted) != dict(here.configs)
    )
    if len(topic.partitions) <= len(here.partitions) and not has_others:
        return None
    return _wanted(topic, here.name, here.id, wanted)


def _wanted(topic: TopicMetadata, name: str, topic_id: UUID, configs: Mapping[str, str]) -> NewLinkedTopic:
    return NewLinkedTopic(
        name=name,
        topic_id=topic_id,
        source_topic=topic.name,
        source_topic_id=topic.id,
        source_leader_epochs=tuple(topic.partitions[index].leader_epoch for index in range(len(topic.partitions))),
        configs=dict(configs),
    )


def _is_whole(topic: TopicMetadata) -> bool:
    return bool(topic.partitions) and topic.partitions.keys() == set(range(len(topic.partitions)))


def _refused(name: str, reason: str) -> LinkProblem:
    return LinkProblem(kind=LinkProblemKind.TOPIC_REFUSED, name=name, reason=reason)
