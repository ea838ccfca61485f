"""Messages of markers: what travels together, and whether an answer is about it. Pure."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from ottla_core.cluster.state.model import Topic
from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.markers.pending_end import PendingEnd
from ottla_proto.gen.ottla import group_relay_pb2 as pb

MARKERS_PER_MESSAGE_MAX = 200
PARTITIONS_PER_MESSAGE_MAX = 2_000
"""More only where one transaction has more."""

NO_TOPIC = UUID(int=0)


class Item(NamedTuple):
    """Markers of one transaction for partitions of one broker."""

    pending: PendingEnd
    partitions: tuple[TopicPartition, ...]


def take_items(queue: deque[Item]) -> list[Item]:
    """Take what fits into a message, without what is void by now."""
    items: list[Item] = []
    partition_count = 0
    while queue and len(items) < MARKERS_PER_MESSAGE_MAX:
        partition_count += len(queue[0].partitions)
        if items and partition_count > PARTITIONS_PER_MESSAGE_MAX:
            break
        item = queue.popleft()
        if not item.pending.is_void:
            items.append(item)
    return items


def markers_write(items: Sequence[Item], topics: Mapping[str, Topic]) -> pb.MarkersWrite:
    """Return the message; its partitions stand in the order of those of the items.

    Args:
        items: what is sent.
        topics: the cluster's. Of one that is gone by now no partition can take the marker.
    """
    message = pb.MarkersWrite()
    for pending, partitions in items:
        order = pending.order
        marker = message.markers.add(
            producer_id=order.end.identity.producer_id,
            producer_epoch=order.end.identity.epoch,
            is_commit=order.is_commit,
            coordinator_epoch=pending.number,
            transaction_version=order.transaction_version,
        )
        for name, indexes in _by_topic(partitions).items():
            topic_id = topics[name].id if name in topics else NO_TOPIC
            marker.topics.add(name=name, partitions=indexes, topic_id=topic_id.bytes)
    return message


def _by_topic(partitions: Sequence[TopicPartition]) -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


def fits(items: Sequence[Item], results: Sequence[Sequence[int]]) -> bool:
    """Return whether an answer has a result for each partition."""
    return len(results) == len(items) and all(
        len(codes) == len(item.partitions) for codes, item in zip(results, items, strict=True)
    )
