"""OffsetDelete: an administrator lets a group forget where it was in topics that it does not consume.

Offsets of open transactions are forgotten as well; the transactions go on without them.

Source: `KafkaApis.handleOffsetDeleteRequest` and `OffsetMetadataManager.deleteOffsets` in Kafka.
"""

from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse, OffsetDeleteResponseTopic
from kio.schema.offset_delete.v0.response import OffsetDeleteResponsePartition as ResponsePartition

from ottla_core.cluster.state.model import ClusterState
from ottla_core.wire.conversion import message_of
from ottla_core.wire.record_batch import HEADER_SIZE_BYTES
from ottla_group_coordinator.errors import GroupIdNotFound, InvalidCommitOffsetSize, InvalidGroupId, NonEmptyGroup
from ottla_group_coordinator.group import CONSUMER_PROTOCOL_TYPE, Group
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.records import OffsetCommitKey
from ottla_group_coordinator.records.offset_commit import record_bytes_max
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Write tombstones for what may be deleted, and answer.

    Raises:
        InvalidGroupId, GroupIdNotFound: there is no such group.
        NonEmptyGroup: it has members of whom it is not known what they consume.
        InvalidCommitOffsetSize: so many offsets cannot be removed at once.
    """
    message: OffsetDeleteRequest = request.message
    group = _deletable_from(shard, message.group_id)
    offsets = shard.offsets.of_group(message.group_id)
    pending = shard.pending_offsets.of_group(message.group_id)
    topics = []
    keys = []
    for topic in message.topics:
        topics.append(_topic_response(shard.cluster_state, group, topic))
        for partition in topics[-1].partitions:
            place = topic.name, partition.partition_index
            found = place in offsets or place in pending
            if found and partition.error_code is ErrorCode.none:
                keys.append(
                    OffsetCommitKey(group=group.group_id, topic=topic.name, partition=partition.partition_index)
                )
    if (
        HEADER_SIZE_BYTES + sum(record_bytes_max(key.group, key.topic) for key in keys)
        > shard.settings.batch_bytes_max
    ):
        raise InvalidCommitOffsetSize(f"{len(keys)} offsets cannot be removed at once")
    for key in dict.fromkeys(keys):
        shard.write(turn, key, None)
    told = tuple(topic for topic in topics if topic.partitions)
    turn.answer(request.token, message_of(OffsetDeleteResponse, topics=told))


def _deletable_from(shard: ShardState, group_id: str) -> Group:
    if not group_id:
        raise InvalidGroupId("the group id is empty")
    group = shard.groups.get(group_id)
    if group is None:
        raise GroupIdNotFound(f"there is no group {group_id}")
    if not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise NonEmptyGroup(f"group {group_id} has members of the protocol type {group.protocol_type!r}")
    return group


def _topic_response(state: ClusterState, group: Group, topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    """Return what becomes of each partition: Kafka knows no partition that does not exist, whatever was committed."""
    known = state.topics.get(topic.name)
    partition_count = 0 if known is None else len(known.partitions)
    is_subscribed = group.is_subscribed_to(topic.name)
    partitions = []
    for partition in topic.partitions:
        code = ErrorCode.group_subscribed_to_topic if is_subscribed else ErrorCode.none
        if not 0 <= partition.partition_index < partition_count:
            code = ErrorCode.unknown_topic_or_partition
        partitions.append(ResponsePartition(partition_index=partition.partition_index, error_code=code))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(partitions))
