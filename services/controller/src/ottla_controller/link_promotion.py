"""What the promotion of linked topics comes to. Pure.

Promotion ends the following and raises the leader epoch in one change of the partition. The new epoch is far above
(`PROMOTION_LEAP`): the source may hold elections after it was given up, and what it writes then must not bear an
epoch that is used here for other records.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ottla_controller.cluster_links import find_link, topics_of
from ottla_controller.linked_topics import LEADER_EPOCH_MAX
from ottla_core.cluster.controller_rpc.link_api import PromotedPartition
from ottla_core.cluster.state.model import NO_EPOCH, ClusterState, Link, PartitionState, Topic
from ottla_core.errors import PolicyViolation
from ottla_core.promotion import PROMOTION_LEAP

PROMOTED_NAMES_BYTES_MAX = 512 * 1024
"""Of the names that a link remembers; etcd takes values of 1.5 MiB."""


@dataclass(frozen=True, slots=True)
class PromotionPlan:
    """The link and partitions as they shall be, the topics that then follow no longer, and the answer.

    The link is to be written first: it remembers the topics also if the promotion is cut short.
    """

    link: Link
    partitions: tuple[PartitionState, ...]
    topics: tuple[Topic, ...]
    results: tuple[PromotedPartition, ...]


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
