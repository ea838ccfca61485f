"""GroupMetadata records: a generation of a group of the classic protocol, with its members."""

from dataclasses import dataclass

from ottla_group_coordinator.records.field_codec import (
    BYTES,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    Field,
    Schema,
    array_of,
    struct_of,
)

WRITTEN_VERSION = 3
"""What Kafka 4 writes; version 4, which is flexible, can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey:
    """A group of the classic protocol."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """A member in a generation.

    Attributes:
        rebalance_timeout: milliseconds, or -1 in old records, where the session timeout stands for it.
        session_timeout: milliseconds.
        subscription: what the member said under the protocol that was chosen.
        assignment: what the leader assigned to it.
    """

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout: int = -1
    session_timeout: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """A generation.

    Attributes:
        protocol: the assignor that was chosen, or None in an empty group.
        leader: a member id, or None in an empty group.
        current_state_timestamp: epoch milliseconds since when the group is in its state, or -1 if unknown.
    """

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int = -1
    members: tuple[MemberMetadata, ...] = ()


_MEMBER = struct_of(
    MemberMetadata,
    Field("member_id", STRING),
    Field("group_instance_id", NULLABLE_STRING, since=3),
    Field("client_id", STRING),
    Field("client_host", STRING),
    Field("rebalance_timeout", INT32, since=1, default=-1),
    Field("session_timeout", INT32),
    Field("subscription", BYTES),
    Field("assignment", BYTES),
)

GROUP_METADATA_KEY = Schema(GroupMetadataKey, [Field("group", STRING)])
GROUP_METADATA_VALUE = Schema(
    GroupMetadataValue,
    [
        Field("protocol_type", STRING),
        Field("generation", INT32),
        Field("protocol", NULLABLE_STRING),
        Field("leader", NULLABLE_STRING),
        Field("current_state_timestamp", INT64, since=2, default=-1),
        Field("members", array_of(_MEMBER)),
    ],
    version_max=4,
    flexible_since=4,
)
