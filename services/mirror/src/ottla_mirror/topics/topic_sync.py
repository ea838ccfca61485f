"""What has to be done at the target so that it has the source's topics. Pure.

A topic that exists at the target and that the flow has not made is somebody's: it is refused, unless the flow is told
to adopt such topics. What a flow makes it notes before it is made, so that it knows its own after a crash.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.client.cluster_metadata import TopicMetadata
from ottla_core.errors import InvalidTopic
from ottla_core.topic_name import check_topic_name


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTopic:
    """A topic that is copied.

    Attributes:
        topic: its name at the source.
        topic_id: at the source.
        remote_topic: its name at the target.
        partitions: how many are copied: those that exist on both sides.
    """

    topic: str
    topic_id: UUID
    remote_topic: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to make at the target."""

    topic: str
    remote_topic: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """A topic of the target that needs as many partitions as the source's has."""

    topic: str
    remote_topic: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """What has to be done, and what is.

    Attributes:
        copied: topics that can be copied now, by their names at the source.
        new: topics to make.
        grown: topics to extend.
        gone: topics of the target, made by the flow, whose source is there no more.
        refused: why a topic is not copied, by its name at the source.
        waiting: likewise, where that passes by itself.
    """

    copied: Mapping[str, CopiedTopic] = field(default_factory=dict)
    new: tuple[NewTopic, ...] = ()
    grown: tuple[MorePartitions, ...] = ()
    gone: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)


def plan_topics(
    wanted: Mapping[str, str],
    *,
    source: Mapping[str, TopicMetadata],
    target: Mapping[str, TopicMetadata],
    made: Mapping[str, str],
    made_by_others: Mapping[str, str],
    existing: Literal["refuse", "adopt"],
) -> TopicPlan:
    """Return what has to be done.

    Args:
        wanted: topics of the source to copy, and what they are called at the target.
        source: all topics of the source.
        target: all topics of the target.
        made: the target's topics that this flow has made or adopted, and their sources.
        made_by_others: the target's topics that other flows have made, and the flow's name.
        existing: what is done with topics of the target that no mirror has made.
    """
    copied: dict[str, CopiedTopic] = {}
    new: list[NewTopic] = []
    grown: list[MorePartitions] = []
    refused: dict[str, str] = {}
    waiting: dict[str, str] = {}
    taken: dict[str, str] = {}
    for topic, remote in sorted(wanted.items()):
        found, there = source[topic], target.get(remote)
        count = len(found.partitions)
        if reason := _why_refused(topic, remote, taken, made) or _why_foreign(
            remote, there, made, made_by_others, existing
        ):
            refused[topic] = reason
            continue
        taken[remote] = topic
        if found.error is not ErrorCode.none or count == 0:
            waiting[topic] = f"the source says {found.error.name.upper()} of it"
        elif there is None or there.error is ErrorCode.unknown_topic_or_partition:
            new.append(NewTopic(topic=topic, remote_topic=remote, partitions=count))
        elif there.error is not ErrorCode.none:
            waiting[topic] = f"the target says {there.error.name.upper()} of {remote}"
        else:
            if count > len(there.partitions):
                grown.append(MorePartitions(topic=topic, remote_topic=remote, partitions=count))
            copied[topic] = CopiedTopic(
                topic=topic,
                topic_id=found.id,
                remote_topic=remote,
                partitions=min(count, len(there.partitions)),
            )
    gone = tuple(remote for remote, topic in sorted(made.items()) if topic not in source and remote in target)
    return TopicPlan(copied=copied, new=tuple(new), grown=tuple(grown), gone=gone, refused=refused, waiting=waiting)


def _why_refused(topic: str, remote: str, taken: Mapping[str, str], made: Mapping[str, str]) -> str:
    try:
        check_topic_name(remote)
    except InvalidTopic as error:
        return f"it cannot be called {remote} at the target: {error.message}"
    if remote in taken:
        return f"it would be called {remote} at the target, as {taken[remote]} is"
    if made.get(remote, topic) != topic:
        return f"{remote} at the target is the copy of {made[remote]}"
    return ""


def _why_foreign(
    remote: str,
    there: TopicMetadata | None,
    made: Mapping[str, str],
    made_by_others: Mapping[str, str],
    existing: Literal["refuse", "adopt"],
) -> str:
    if remote in made:
        return ""
    if remote in made_by_others:
        return f"{remote} at the target is a copy that the flow {made_by_others[remote]} makes"
    exists = there is not None and there.error is not ErrorCode.unknown_topic_or_partition
    if exists and existing == "refuse":
        return (
            f"{remote} exists at the target, and no mirror has made it; remove it, or set existing.topics=adopt "
            "to have what is copied follow what it has"
        )
    return ""
