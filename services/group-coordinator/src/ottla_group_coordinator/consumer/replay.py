"""What the records of groups of the consumer protocol do to a shard.

Loading applies them in the order of the log; in operation `ShardState.write` applies each as it is decided. A value
brings the group into being if need be: compaction may have removed the record that was first. A tombstone for what
is not there means nothing. A classic group of the same id has been superseded, or only keeps offsets; it gives
way.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ottla_group_coordinator.consumer.group import ConsumerGroup, ResolvedExpression
from ottla_group_coordinator.consumer.member import LEAVING_EPOCH, ConsumerMember
from ottla_group_coordinator.consumer.partitions import NO_PARTITIONS, from_topics
from ottla_group_coordinator.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla_group_coordinator.shard_state import ShardState


def existing_group(shard: ShardState, group_id: str) -> ConsumerGroup | None:
    """Return a group if it is there and speaks the consumer protocol."""
    group = shard.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) else None


def _group(shard: ShardState, group_id: str) -> ConsumerGroup:
    group = existing_group(shard, group_id)
    if group is None:
        group = shard.groups[group_id] = ConsumerGroup(group_id)
    return group


def replay_group(shard: ShardState, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
    """Set the group's epoch, or remove the group."""
    if value is not None:
        group = _group(shard, key.group_id)
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif existing_group(shard, key.group_id) is not None:
        del shard.groups[key.group_id]


def replay_partition_metadata(
    shard: ShardState, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
) -> None:
    """Note that the log has a record of Kafka 4.0 that is not needed any more."""
    if value is not None:
        _group(shard, key.group_id).has_partition_metadata = True
    elif (group := existing_group(shard, key.group_id)) is not None:
        group.has_partition_metadata = False


def replay_member(
    shard: ShardState, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    """Set what a member says of itself, or remove the member."""
    if value is not None:
        group = _group(shard, key.group_id)
        member = group.members.get(key.member_id, ConsumerMember(member_id=key.member_id))
        group.update_member(member.with_metadata(value))
    elif (known := existing_group(shard, key.group_id)) is not None:
        known.remove_member(key.member_id)


def replay_target(
    shard: ShardState,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    """Set or remove what a member shall own."""
    if value is not None:
        _group(shard, key.group_id).target[key.member_id] = from_topics(value.topic_partitions)
    elif (group := existing_group(shard, key.group_id)) is not None:
        group.target.pop(key.member_id, None)


def replay_target_epoch(
    shard: ShardState,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    """Set the group epoch for which the target assignment was made."""
    if value is not None:
        _group(shard, key.group_id).assignment_epoch = value.assignment_epoch
    elif (group := existing_group(shard, key.group_id)) is not None:
        group.assignment_epoch = 0


def replay_current_assignment(
    shard: ShardState,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    """Set what a member owns; a tombstone comes before that of the member itself."""
    if value is not None:
        group = _group(shard, key.group_id)
        member = group.members.get(key.member_id, ConsumerMember(member_id=key.member_id))
        group.update_member(member.with_current_assignment(value))
        return
    known = existing_group(shard, key.group_id)
    if known is not None and (former := known.members.get(key.member_id)) is not None:
        known.update_member(
            replace(
                former,
                epoch=LEAVING_EPOCH,
                previous_epoch=LEAVING_EPOCH,
                assigned=NO_PARTITIONS,
                pending_revocation=NO_PARTITIONS,
            )
        )


def replay_expression(
    shard: ShardState, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    """Set or forget which topics an expression matches."""
    if value is not None:
        _group(shard, key.group_id).expressions[key.regular_expression] = ResolvedExpression(
            frozenset(value.topics), value.version, value.timestamp
        )
    elif (group := existing_group(shard, key.group_id)) is not None:
        group.expressions.pop(key.regular_expression, None)


CONSUMER_GROUP_REPLAYS: Mapping[type, Callable[[ShardState, Any, Any], None]] = {
    ConsumerGroupMetadataKey: replay_group,
    ConsumerGroupPartitionMetadataKey: replay_partition_metadata,
    ConsumerGroupMemberMetadataKey: replay_member,
    ConsumerGroupTargetAssignmentMetadataKey: replay_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: replay_target,
    ConsumerGroupCurrentMemberAssignmentKey: replay_current_assignment,
    ConsumerGroupRegularExpressionKey: replay_expression,
}
"""What applies each type of record, by the class of its key."""
