"""A classic group as a record, and back.

A group lives in memory and writes a snapshot of itself when a generation has been assigned, when it becomes empty,
and when a static member is replaced. A coordinator that loads the group goes back to the last snapshot: members that
were in the middle of a rebalance are told that their generation is wrong, and join again.

Source: `GroupCoordinatorRecordHelpers.newGroupMetadataRecord` and `GroupMetadataManager.replay` in Kafka.
"""

from collections.abc import Iterable

from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.member import ClassicMember, MemberProtocol
from ottla_group_coordinator.classic.state import ClassicGroupState
from ottla_group_coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    encode_key,
    encode_value,
)
from ottla_group_coordinator.runtime.shard_batches import RECORD_OVERHEAD_BYTES_MAX
from ottla_group_coordinator.runtime.turn import CoordinatorRecord

UNKNOWN_TIMESTAMP = -1
NO_TIMEOUT = -1
BATCH_OVERHEAD_BYTES_MAX = 128
"""What a batch of one record needs besides key and value: 61 bytes of header and the record's varints."""


def snapshot(group: ClassicGroup, *, without_leader: bool = False) -> CoordinatorRecord:
    """Return the record of a group as it stands; without a leader, it rebalances when it is loaded."""
    protocol = group.protocol_name
    assert protocol is not None or not group.members, "members have agreed on a protocol before they are stored"
    timestamp_ms = group.current_state_timestamp_ms
    return CoordinatorRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=protocol,
            leader=None if without_leader else group.leader_id,
            current_state_timestamp=UNKNOWN_TIMESTAMP if timestamp_ms is None else timestamp_ms,
            members=tuple(_stored(member, protocol or "") for member in group.members.values()),
        ),
    )


def _stored(member: ClassicMember, protocol_name: str) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=member.assignment,
    )


def fits(record: CoordinatorRecord, batch_bytes_max: int) -> bool:
    """Return whether a record can be stored in a batch of its own."""
    assert record.value is not None, "a tombstone always fits"
    size = len(encode_key(record.key)) + len(encode_value(record.value))
    return size + BATCH_OVERHEAD_BYTES_MAX <= batch_bytes_max


def fit_together(records: Iterable[CoordinatorRecord], batch_bytes_max: int) -> bool:
    """Return whether records can be stored in one batch, and so all of them or none."""
    size = sum(
        len(encode_key(key)) + (0 if value is None else len(encode_value(value))) + RECORD_OVERHEAD_BYTES_MAX
        for key, value in records
    )
    return size + BATCH_OVERHEAD_BYTES_MAX <= batch_bytes_max


def restore(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Return the group that a record describes: stable if it has members; if nobody leads, it is to rebalance."""
    timestamp_ms = value.current_state_timestamp
    group = ClassicGroup(group_id, timestamp_ms=None if timestamp_ms == UNKNOWN_TIMESTAMP else timestamp_ms)
    group.generation = value.generation
    group.protocol_type = value.protocol_type
    group.protocol_name = value.protocol
    for stored in value.members:
        group.add(_restored(stored, value.protocol or ""), value.protocol_type)
    if value.members:
        group.state = ClassicGroupState.STABLE
        if value.leader is None or value.leader in group.members:
            group.leader_id = value.leader
    group.update_subscribed_topics()
    return group


def _restored(stored: MemberMetadata, protocol_name: str) -> ClassicMember:
    timeout_ms = stored.rebalance_timeout
    return ClassicMember(
        member_id=stored.member_id,
        instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.session_timeout if timeout_ms == NO_TIMEOUT else timeout_ms,
        session_timeout_ms=stored.session_timeout,
        protocols=(MemberProtocol(protocol_name, stored.subscription),),
        assignment=stored.assignment,
    )
