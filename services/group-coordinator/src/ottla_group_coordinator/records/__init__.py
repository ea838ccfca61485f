"""The records of ``__consumer_offsets`` in Kafka's formats. Pure.

Each type of record has a key class and a value class, named as Kafka's schemas; a record without a value is a
tombstone. `encode_key`, `encode_value`, `decode_key` and `decode_value` turn them into bytes and back.
"""

from ottla_group_coordinator.records.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
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
    PartitionMetadata,
    TopicMetadata,
    TopicPartitions,
)
from ottla_group_coordinator.records.field_codec import NO_UUID
from ottla_group_coordinator.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from ottla_group_coordinator.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla_group_coordinator.records.record_types import (
    GROUP_RECORDS,
    RecordKey,
    RecordValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

__all__ = [
    "GROUP_RECORDS",
    "NO_UUID",
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "PartitionMetadata",
    "RecordKey",
    "RecordValue",
    "TopicMetadata",
    "TopicPartitions",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
]
