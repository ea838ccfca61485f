"""When the group epoch rises, and the target assignment that is made for it.

Source: `TargetAssignmentBuilder` and `updateSubscriptionMetadata` in Kafka.
"""

from uuid import UUID

from ottla_core.cluster.state.model import Topic
from ottla_group_coordinator.consumer.assignors import ASSIGNORS, Subscriber
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.consumer.partitions import Partitions, to_topics
from ottla_group_coordinator.consumer.subscribed_metadata import metadata_hash
from ottla_group_coordinator.rebalance_counts import Rebalance
from ottla_group_coordinator.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, Turn
from ottla_group_coordinator.shard_state import ShardState


def raise_epoch(shard: ShardState, turn: Turn, group: ConsumerGroup) -> None:
    """Ask for another target assignment: the next heartbeat of a member, or this one, makes it."""
    topics = shard.cluster_state.topics
    shard.write(
        turn,
        ConsumerGroupMetadataKey(group_id=group.group_id),
        ConsumerGroupMetadataValue(
            epoch=group.epoch + 1, metadata_hash=metadata_hash(group.existing_topics(topics).values())
        ),
    )
    turn.counted += (Rebalance(group.type.value, None),)
    group.checked_topics = topics
    if group.has_partition_metadata:
        shard.write(turn, ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None)


def have_topics_changed(shard: ShardState, group: ConsumerGroup) -> bool:
    """Return whether subscribed topics have come, gone or grown since the epoch was raised; look but once."""
    topics = shard.cluster_state.topics
    if group.checked_topics is topics:
        return False
    group.checked_topics = topics
    return metadata_hash(group.existing_topics(topics).values()) != group.metadata_hash


def update_target(shard: ShardState, turn: Turn, group: ConsumerGroup) -> None:
    """Make the target assignment for the present group epoch, and store what differs from the former one."""
    topics = group.existing_topics(shard.cluster_state.topics)
    assignor = ASSIGNORS[group.preferred_assignor(shard.settings.consumer_assignors)]
    partition_counts = {topic_id: len(topic.partitions) for topic_id, topic in topics.items()}
    for member_id, partitions in assignor(_subscribers(group, topics), partition_counts, group.target).items():
        if group.target.get(member_id) != partitions:
            shard.write(turn, *target_record(group.group_id, member_id, partitions))
    shard.write(turn, *target_epoch_record(group.group_id, group.epoch))


def _subscribers(group: ConsumerGroup, topics: dict[UUID, Topic]) -> dict[str, Subscriber]:
    ids_by_name = {topic.name: topic_id for topic_id, topic in topics.items()}
    ids_by_subscription: dict[frozenset[str], frozenset[UUID]] = {}
    subscribers = {}
    for member in group.members.values():
        names = group.subscription(member)
        topic_ids = ids_by_subscription.get(names)
        if topic_ids is None:
            topic_ids = frozenset(ids_by_name[name] for name in names if name in ids_by_name)
            ids_by_subscription[names] = topic_ids
        subscribers[member.member_id] = Subscriber(topic_ids, member.instance_id)
    return subscribers


def target_record(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    """Return the record of what a member shall own."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=to_topics(partitions)),
    )


def target_epoch_record(group_id: str, epoch: int) -> CoordinatorRecord:
    """Return the record that ends a target assignment; without it, the assignment is made anew."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
    )
