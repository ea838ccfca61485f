"""The ``range`` assignor: every subscriber of a topic gets a contiguous range of its partitions.

Members are taken in the same order for every topic, so members with equal subscriptions get the same indexes of all
topics that have equally many partitions: such topics stay co-partitioned, and can be joined partition by partition.
Static members come first, by their instance ids, which they keep when they restart; dynamic members follow by member
id.

Source: Kafka's `RangeAssignor`.
"""

from collections.abc import Mapping
from uuid import UUID

from ottla_group_coordinator.consumer.assignors.subscriber import Subscriber
from ottla_group_coordinator.consumer.partitions import Partitions


def assign_by_range(
    subscribers: Mapping[str, Subscriber],
    partition_counts: Mapping[UUID, int],
    present: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    """Return ranges of partitions for all members, whatever the present ones; see `Assignor`."""
    assignment: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in subscribers}
    for topic_id, member_ids in _subscribers_by_topic(subscribers).items():
        share, larger_shares = divmod(partition_counts[topic_id], len(member_ids))
        start = 0
        for position, member_id in enumerate(member_ids):
            end = start + share + (position < larger_shares)
            if start < end:
                assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assignment)


def _subscribers_by_topic(subscribers: Mapping[str, Subscriber]) -> dict[UUID, list[str]]:
    def place(member_id: str) -> tuple[bool, str]:
        instance_id = subscribers[member_id].instance_id
        return (False, instance_id) if instance_id is not None else (True, member_id)

    by_topic: dict[UUID, list[str]] = {}
    for member_id in sorted(subscribers, key=place):
        for topic_id in subscribers[member_id].topic_ids:
            by_topic.setdefault(topic_id, []).append(member_id)
    return by_topic
