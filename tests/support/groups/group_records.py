"""Any records of groups, for property tests, and one example of each type."""

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from ottla_group_coordinator.records import (
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
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionMetadata,
    RecordKey,
    RecordValue,
    TopicMetadata,
    TopicPartitions,
)

texts = st.text(st.characters(codec="utf-8"), max_size=20)
long_texts = texts | st.integers(0x70, 0x90).map("x".__mul__)  # about where lengths take a second byte
byte_strings = st.binary(max_size=200)
int8s = st.integers(-(2**7), 2**7 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
optional_texts = st.none() | texts


def tuples_of(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    """Tuples of a few items."""
    return st.lists(items, max_size=4).map(tuple)


topic_partitions = tuples_of(st.builds(TopicPartitions, topic_id=st.uuids(), partitions=tuples_of(int32s)))
partition_metadata = st.builds(PartitionMetadata, partition=int32s, racks=tuples_of(texts))
topic_metadata = st.builds(
    TopicMetadata,
    topic_id=st.uuids(),
    topic_name=texts,
    num_partitions=int32s,
    partition_metadata=tuples_of(partition_metadata),
)
classic_protocols = tuples_of(st.builds(ClassicProtocol, name=texts, metadata=byte_strings))
members = st.builds(
    MemberMetadata,
    member_id=texts,
    group_instance_id=optional_texts,
    client_id=texts,
    client_host=texts,
    rebalance_timeout=int32s,
    session_timeout=int32s,
    subscription=byte_strings,
    assignment=byte_strings,
)

_KEY_FIELDS: dict[type[RecordKey], dict[str, st.SearchStrategy[Any]]] = {
    OffsetCommitKey: {"group": texts, "topic": texts, "partition": int32s},
    GroupMetadataKey: {"group": long_texts},
    ConsumerGroupMetadataKey: {"group_id": texts},
    ConsumerGroupPartitionMetadataKey: {"group_id": texts},
    ConsumerGroupMemberMetadataKey: {"group_id": texts, "member_id": long_texts},
    ConsumerGroupTargetAssignmentMetadataKey: {"group_id": texts},
    ConsumerGroupTargetAssignmentMemberKey: {"group_id": texts, "member_id": texts},
    ConsumerGroupCurrentMemberAssignmentKey: {"group_id": texts, "member_id": texts},
    ConsumerGroupRegularExpressionKey: {"group_id": texts, "regular_expression": long_texts},
}
KEYS = {key_type: st.builds(key_type, **key_fields) for key_type, key_fields in _KEY_FIELDS.items()}
VALUES = {
    OffsetCommitKey: st.builds(
        OffsetCommitValue,
        offset=int64s,
        leader_epoch=int32s,
        metadata=st.just("") | long_texts,
        commit_timestamp=int64s,
        topic_id=st.just(UUID(int=0)) | st.uuids(),
    )
    | st.builds(
        OffsetCommitValue, offset=int64s, metadata=texts, commit_timestamp=int64s, expire_timestamp=int64s
    ).filter(lambda value: value.expire_timestamp != -1),
    GroupMetadataKey: st.builds(
        GroupMetadataValue,
        protocol_type=texts,
        generation=int32s,
        protocol=optional_texts,
        leader=optional_texts,
        current_state_timestamp=int64s,
        members=tuples_of(members),
    ),
    ConsumerGroupMetadataKey: st.builds(ConsumerGroupMetadataValue, epoch=int32s, metadata_hash=st.just(0) | int64s),
    ConsumerGroupPartitionMetadataKey: st.builds(
        ConsumerGroupPartitionMetadataValue, topics=tuples_of(topic_metadata)
    ),
    ConsumerGroupMemberMetadataKey: st.builds(
        ConsumerGroupMemberMetadataValue,
        instance_id=optional_texts,
        rack_id=optional_texts,
        client_id=texts,
        client_host=long_texts,
        subscribed_topic_names=tuples_of(texts),
        subscribed_topic_regex=optional_texts,
        rebalance_timeout_ms=int32s,
        server_assignor=optional_texts,
        classic_member_metadata=st.none()
        | st.builds(ClassicMemberMetadata, session_timeout_ms=int32s, supported_protocols=classic_protocols),
    ),
    ConsumerGroupTargetAssignmentMetadataKey: st.builds(
        ConsumerGroupTargetAssignmentMetadataValue, assignment_epoch=int32s
    ),
    ConsumerGroupTargetAssignmentMemberKey: st.builds(
        ConsumerGroupTargetAssignmentMemberValue, topic_partitions=topic_partitions
    ),
    ConsumerGroupCurrentMemberAssignmentKey: st.builds(
        ConsumerGroupCurrentMemberAssignmentValue,
        member_epoch=int32s,
        previous_member_epoch=int32s,
        state=int8s,
        assigned_partitions=topic_partitions,
        partitions_pending_revocation=topic_partitions,
    ),
    ConsumerGroupRegularExpressionKey: st.builds(
        ConsumerGroupRegularExpressionValue, topics=tuples_of(texts), version=int64s, timestamp=int64s
    ),
}

records = st.one_of([st.tuples(keys, VALUES[key_type]) for key_type, keys in KEYS.items()])

_TOPIC_ID = UUID("0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0")
_PARTITIONS = (TopicPartitions(topic_id=_TOPIC_ID, partitions=(0, 1, 2)),)

EXAMPLES: tuple[tuple[RecordKey, RecordValue], ...] = (
    (
        OffsetCommitKey(group="readers", topic="orders", partition=3),
        OffsetCommitValue(
            offset=4711, leader_epoch=5, metadata="note", commit_timestamp=1_700_000_000_001, topic_id=_TOPIC_ID
        ),
    ),
    (
        OffsetCommitKey(group="readers", topic="orders", partition=4),
        OffsetCommitValue(offset=4712, commit_timestamp=1_700_000_000_002, expire_timestamp=1_700_000_099_999),
    ),
    (
        GroupMetadataKey(group="readers"),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=7,
            protocol="range",
            leader="app-1",
            current_state_timestamp=1_700_000_000_003,
            members=(
                MemberMetadata(
                    member_id="app-1",
                    group_instance_id="instance-1",
                    client_id="app",
                    client_host="/127.0.0.1",
                    rebalance_timeout=300_000,
                    session_timeout=45_000,
                    subscription=bytes.fromhex("0000000000010006") + b"orders" + bytes(4),
                    assignment=bytes.fromhex("0000000000010006") + b"orders" + bytes((0, 0, 0, 1, *bytes(8))),
                ),
            ),
        ),
    ),
    (ConsumerGroupMetadataKey(group_id="modern"), ConsumerGroupMetadataValue(epoch=9, metadata_hash=-123_456)),
    (
        ConsumerGroupPartitionMetadataKey(group_id="modern"),
        ConsumerGroupPartitionMetadataValue(
            topics=(
                TopicMetadata(
                    topic_id=_TOPIC_ID,
                    topic_name="orders",
                    num_partitions=3,
                    partition_metadata=(PartitionMetadata(partition=0, racks=("rack-1", "rack-2")),),
                ),
            )
        ),
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="modern", member_id="member-1"),
        ConsumerGroupMemberMetadataValue(
            instance_id="instance-1",
            rack_id="rack-1",
            client_id="app",
            client_host="/127.0.0.1",
            subscribed_topic_names=("orders", "payments"),
            subscribed_topic_regex="ord.*",
            rebalance_timeout_ms=300_000,
            server_assignor="uniform",
        ),
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="modern", member_id="member-2"),
        ConsumerGroupMemberMetadataValue(
            client_id="app",
            client_host="/127.0.0.1",
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=45_000, supported_protocols=(ClassicProtocol(name="range", metadata=b"\0\1\2"),)
            ),
        ),
    ),
    (
        ConsumerGroupTargetAssignmentMetadataKey(group_id="modern"),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=10),
    ),
    (
        ConsumerGroupTargetAssignmentMemberKey(group_id="modern", member_id="member-1"),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=_PARTITIONS),
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey(group_id="modern", member_id="member-1"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=10,
            previous_member_epoch=9,
            state=1,
            assigned_partitions=_PARTITIONS,
            partitions_pending_revocation=(TopicPartitions(topic_id=_TOPIC_ID, partitions=(7,)),),
        ),
    ),
    (
        ConsumerGroupRegularExpressionKey(group_id="modern", regular_expression="ord.*"),
        ConsumerGroupRegularExpressionValue(topics=("orders",), version=29, timestamp=1_700_000_000_004),
    ),
)
"""Every type of record, with every field set in one of them."""
