"""Records of internal topics in words, as the coordinators write them."""

from uuid import UUID

import pytest

from ottla_group_coordinator import records as groups
from ottla_group_coordinator.transactions import records as transactions
from ottla_operations.records.internal_records import OFFSETS, TRANSACTIONS, internal_sentence

AT_MS = 1_357_016_400_000
MEMBER = groups.MemberMetadata(
    member_id="m-1", client_id="c", client_host="/10.0.0.1", session_timeout=1, subscription=b"", assignment=b""
)
OWNED = (groups.TopicPartitions(topic_id=UUID(int=1), partitions=(0, 2)),)
GROUP_RECORDS = [
    (
        groups.OffsetCommitKey(group="g", topic="flights", partition=3),
        groups.OffsetCommitValue(offset=170, commit_timestamp=AT_MS),
        "Group g goes on at offset 170 of flights:3, committed 2013-01-01 05:00:00.",
    ),
    (
        groups.OffsetCommitKey(group="g", topic="flights", partition=3),
        groups.OffsetCommitValue(offset=1, commit_timestamp=AT_MS, metadata="mine", topic_id=UUID(int=7)),
        "Group g goes on at offset 1 of flights:3, committed 2013-01-01 05:00:00, with the note “mine”.",
    ),
    (
        groups.OffsetCommitKey(group="g", topic="flights", partition=3),
        groups.OffsetCommitValue(offset=2, commit_timestamp=AT_MS, expire_timestamp=AT_MS),
        "Group g goes on at offset 2 of flights:3, committed 2013-01-01 05:00:00.",
    ),
    (groups.OffsetCommitKey(group="g", topic="t", partition=0), None, "Group g has no offset in t:0 any more."),
    (
        groups.GroupMetadataKey(group="g"),
        groups.GroupMetadataValue(
            protocol_type="consumer", generation=5, protocol="range", leader="m-1", members=(MEMBER,)
        ),
        "Group g of the classic protocol (consumer) has 1 member in generation 5, assigned by range, led by m-1.",
    ),
    (
        groups.GroupMetadataKey(group="g"),
        groups.GroupMetadataValue(protocol_type="consumer", generation=6, protocol=None, leader=None),
        "Group g of the classic protocol has no members, in generation 6.",
    ),
    (
        groups.ConsumerGroupMetadataKey(group_id="g"),
        groups.ConsumerGroupMetadataValue(epoch=7, metadata_hash=9),
        "Group g of the consumer protocol is at epoch 7.",
    ),
    (
        groups.ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        groups.ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id="r",
            client_id="c",
            client_host="/10.0.0.1",
            subscribed_topic_names=("a", "b"),
            subscribed_topic_regex=None,
            rebalance_timeout_ms=1,
            server_assignor="uniform",
            classic_member_metadata=None,
        ),
        "Member m of group g, client c at /10.0.0.1, subscribes to a, b.",
    ),
    (
        groups.ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        None,
        "Member m has left group g.",
    ),
    (
        groups.ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        groups.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=7),
        "The target assignment of group g is of epoch 7.",
    ),
    (
        groups.ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
        groups.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=OWNED),
        "Member m of group g shall own 2 partitions.",
    ),
    (
        groups.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        groups.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=7, previous_member_epoch=6, state=0, assigned_partitions=OWNED
        ),
        "Member m of group g is at epoch 7 and owns 2 partitions; it has to give back 0 partitions.",
    ),
    (
        groups.ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="f.*"),
        groups.ConsumerGroupRegularExpressionValue(topics=("flights",), version=1, timestamp=AT_MS),
        "Of group g, f.* matches flights.",
    ),
]


def transaction(version: int, state: int) -> transactions.TransactionValue:
    return transactions.TransactionValue(
        version=version,
        producer_id=4000,
        producer_epoch=3,
        timeout_ms=60_000,
        state=state,
        topics=(transactions.TopicPartitions(topic="flights", partitions=(0, 1)),) if state else None,
        updated_ms=AT_MS,
        start_ms=AT_MS,
        next_producer_id=4001 if version else -1,
    )


@pytest.mark.parametrize(("key", "value", "sentence"), GROUP_RECORDS)
def test_records_of_groups_are_told(key: groups.RecordKey, value: groups.RecordValue | None, sentence: str) -> None:
    written = None if value is None else groups.encode_value(value)
    assert internal_sentence(OFFSETS, groups.encode_key(key), written) == sentence


@pytest.mark.parametrize("version", [0, 1])
def test_records_of_transactions_are_told(version: int) -> None:
    key = transactions.encode_key(transactions.TransactionKey(transactional_id="load"))
    producer = "producer 4000, epoch 3, at most 60 s."
    told = [
        internal_sentence(TRANSACTIONS, key, transactions.encode_value(transaction(version, n))) for n in (0, 1, 4)
    ]
    assert told == [
        f"The transaction of load is empty, as of 2013-01-01 05:00:00: {producer}",
        f"The transaction of load is ongoing in flights:0, flights:1, as of 2013-01-01 05:00:00: {producer}",
        f"The transaction of load was committed in flights:0, flights:1, as of 2013-01-01 05:00:00: {producer}",
    ]
    assert internal_sentence(TRANSACTIONS, key, None) == "The transactional id load has expired."
    own = transactions.encode_key(transactions.OwnershipKey())
    number = transactions.encode_value(transactions.OwnershipValue(number=12))
    assert "ownership is 12" in (internal_sentence(TRANSACTIONS, own, number) or "")


def test_other_topics_other_types_and_bytes_that_are_cut_are_not_told() -> None:
    key = groups.encode_key(groups.OffsetCommitKey(group="g", topic="flights", partition=3))
    value = groups.encode_value(groups.OffsetCommitValue(offset=170, commit_timestamp=AT_MS))
    assert internal_sentence("flights", key, value) is None
    assert internal_sentence(None, key, value) is None
    assert internal_sentence(OFFSETS, None, value) is None
    assert internal_sentence(OFFSETS, b"\x00\x63", value) is None
    assert internal_sentence(OFFSETS, key, b"\x00\x05" + value[2:]) is None
    assert internal_sentence(OFFSETS, key, b"*** masked, and so of no version") is None
    for length in range(len(key)):
        assert internal_sentence(OFFSETS, key[:length], value) is None
    for length in range(len(value) - 1):  # of the tagged fields no sentence is made
        assert internal_sentence(OFFSETS, key, value[:length]) is None


def test_lengths_that_cannot_be_are_not_believed() -> None:
    key = groups.encode_key(groups.ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="f"))
    for value in (b"\0\0" + b"\xff" * 20, b"\0\0\xff\xff\xff\xff\x07", b"\0\0\x05\x02\xff\x01\x01\x01\x01"):
        assert internal_sentence(OFFSETS, key, value) is None
