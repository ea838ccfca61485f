"""The records of groups of the consumer protocol (KIP-848), with the names of Kafka's schemas.

A group is spread over many records: its epoch, one record per member with what it subscribes to, one per member with
its target assignment, one per member with what it owns at present, and the topics that regular expressions match.
"""

from dataclasses import dataclass
from uuid import UUID

from ottla_group_coordinator.records.field_codec import (
    BYTES,
    INT8,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UUID_BYTES,
    Field,
    Schema,
    array_of,
    nullable_struct_of,
    struct_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataKey:
    """A group."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    """The group's epoch.

    Attributes:
        metadata_hash: of the topics subscribed to, since Kafka 4.1; 0 if unknown.
    """

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataKey:
    """A group. Kafka 4.0 wrote what it knew of the topics; since 4.1 the hash in the epoch's record replaces it."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """A partition and the racks of its replicas."""

    partition: int
    racks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """A topic as the group last saw it."""

    topic_id: UUID
    topic_name: str
    num_partitions: int
    partition_metadata: tuple[PartitionMetadata, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    """The topics that a group subscribes to."""

    topics: tuple[TopicMetadata, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataKey:
    """A member."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    """An assignor that a member of the classic protocol offers, and what it says under it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """What is known of a member that speaks the classic protocol in a group of the consumer protocol."""

    session_timeout_ms: int = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    """A member and its subscription.

    Attributes:
        server_assignor: the assignor that the member prefers, or None if any will do.
        classic_member_metadata: None for a member that speaks the consumer protocol.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataKey:
    """A group."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch for which the target assignment was made."""

    assignment_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberKey:
    """A member."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Some partitions of one topic."""

    topic_id: UUID
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    """What a member shall own."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentKey:
    """A member."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """What a member owns.

    Attributes:
        previous_member_epoch: with which the member may still come if the answer with its new epoch was lost.
        state: Kafka's number: 0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown.
    """

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: tuple[TopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionKey:
    """A regular expression that members of the group subscribe to."""

    group_id: str
    regular_expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    """The topics that the expression matches.

    Attributes:
        version: of the cluster metadata in which they were looked up.
        timestamp: epoch milliseconds at which they were.
    """

    topics: tuple[str, ...] = ()
    version: int
    timestamp: int


_GROUP_ID = Field("group_id", STRING)
_MEMBER_ID = Field("member_id", STRING)
_TOPIC_PARTITIONS = array_of(
    struct_of(TopicPartitions, Field("topic_id", UUID_BYTES), Field("partitions", array_of(INT32)))
)
_PARTITION_METADATA = struct_of(PartitionMetadata, Field("partition", INT32), Field("racks", array_of(STRING)))
_TOPIC_METADATA = struct_of(
    TopicMetadata,
    Field("topic_id", UUID_BYTES),
    Field("topic_name", STRING),
    Field("num_partitions", INT32),
    Field("partition_metadata", array_of(_PARTITION_METADATA)),
)
_CLASSIC_PROTOCOL = struct_of(ClassicProtocol, Field("name", STRING), Field("metadata", BYTES))
_CLASSIC_MEMBER_METADATA = nullable_struct_of(
    ClassicMemberMetadata,
    Field("session_timeout_ms", INT32),
    Field("supported_protocols", array_of(_CLASSIC_PROTOCOL)),
)

CONSUMER_GROUP_METADATA_KEY = Schema(ConsumerGroupMetadataKey, [_GROUP_ID])
CONSUMER_GROUP_METADATA_VALUE = Schema(
    ConsumerGroupMetadataValue,
    [Field("epoch", INT32), Field("metadata_hash", INT64, default=0, tag=0)],
    flexible_since=0,
)
CONSUMER_GROUP_PARTITION_METADATA_KEY = Schema(ConsumerGroupPartitionMetadataKey, [_GROUP_ID])
CONSUMER_GROUP_PARTITION_METADATA_VALUE = Schema(
    ConsumerGroupPartitionMetadataValue, [Field("topics", array_of(_TOPIC_METADATA))], flexible_since=0
)
CONSUMER_GROUP_MEMBER_METADATA_KEY = Schema(ConsumerGroupMemberMetadataKey, [_GROUP_ID, _MEMBER_ID])
CONSUMER_GROUP_MEMBER_METADATA_VALUE = Schema(
    ConsumerGroupMemberMetadataValue,
    [
        Field("instance_id", NULLABLE_STRING),
        Field("rack_id", NULLABLE_STRING),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("subscribed_topic_names", array_of(STRING)),
        Field("subscribed_topic_regex", NULLABLE_STRING),
        Field("rebalance_timeout_ms", INT32),
        Field("server_assignor", NULLABLE_STRING),
        # In Kafka's generated class a member without this tag is a classic one with nothing in it, so null, which
        # marks a member of the consumer protocol, must be written.
        Field("classic_member_metadata", _CLASSIC_MEMBER_METADATA, default=ClassicMemberMetadata(), tag=0),
    ],
    flexible_since=0,
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Schema(ConsumerGroupTargetAssignmentMetadataKey, [_GROUP_ID])
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Schema(
    ConsumerGroupTargetAssignmentMetadataValue, [Field("assignment_epoch", INT32)], flexible_since=0
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Schema(ConsumerGroupTargetAssignmentMemberKey, [_GROUP_ID, _MEMBER_ID])
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Schema(
    ConsumerGroupTargetAssignmentMemberValue, [Field("topic_partitions", _TOPIC_PARTITIONS)], flexible_since=0
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Schema(
    ConsumerGroupCurrentMemberAssignmentKey, [_GROUP_ID, _MEMBER_ID]
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Schema(
    ConsumerGroupCurrentMemberAssignmentValue,
    [
        Field("member_epoch", INT32),
        Field("previous_member_epoch", INT32),
        Field("state", INT8),
        Field("assigned_partitions", _TOPIC_PARTITIONS),
        Field("partitions_pending_revocation", _TOPIC_PARTITIONS),
    ],
    flexible_since=0,
)
CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = Schema(
    ConsumerGroupRegularExpressionKey, [_GROUP_ID, Field("regular_expression", STRING)]
)
CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = Schema(
    ConsumerGroupRegularExpressionValue,
    [Field("topics", array_of(STRING)), Field("version", INT64), Field("timestamp", INT64)],
    flexible_since=0,
)
