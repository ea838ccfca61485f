"""The record formats against bytes that Apache Kafka 4.2 wrote, old versions, and the errors for wrong bytes."""

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.errors import InvalidRecord
from ottla_group_coordinator.records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    offset_commit,
)

# Written by Kafka 4.2 for consumers of both protocols. Key, value, and what some of the fields say.
WRITTEN_BY_KAFKA: tuple[tuple[str, str, dict[str, object]], ...] = (
    (
        "000100036f6c6400066f726465727300000000",
        "000400000000000000040000000001000001a1fa538f9500",
        {"offset": 4, "leader_epoch": 0, "metadata": "", "commit_timestamp": 1795201142677},
    ),
    (
        "0001000673696d706c6500066f726465727300000001",
        "00040000000000000007ffffffff066e6f746500000001a1fa53a52a00",
        {"offset": 7, "leader_epoch": -1, "metadata": "note\0"},
    ),
    (
        "000200036f6c64",
        "00030008636f6e73756d657200000001000572616e676500286170702d37653436333537362d616263302d343839632d393130662d"
        "623365656165346335616564000001a1fa538edb0000000100286170702d37653436333537362d616263302d343839632d39313066"
        "2d623365656165346335616564ffff0003617070000a2f3132372e302e302e31000493e00000afc80000001c00030000000100066f"
        "72646572730000000000000000ffffffff00000000001e00000000000100066f726465727300000002000000000000000100000000",
        {"protocol_type": "consumer", "generation": 1, "protocol": "range", "current_state_timestamp": 1795201142491},
    ),
    (
        "000200036f6c64",
        "00030008636f6e73756d657200000002ffffffff000001a1fa538f9e00000000",
        {"generation": 2, "protocol": None, "leader": None, "members": ()},
    ),
    ("000300036e6577", "000000000001010008c135e06a9a343d31", {"epoch": 1, "metadata_hash": -4524463502165525199}),
    ("000300036e6577", "00000000000200", {"epoch": 2, "metadata_hash": 0}),
    (
        "000500036e657700164251676b47755749545a435a33354450473643426577",
        "00000000046170700b2f3132372e302e302e3102076f726465727301000493e00672616e676501000100",
        {
            "subscribed_topic_names": ("orders",),
            "rebalance_timeout_ms": 300_000,
            "server_assignor": "range",
            "classic_member_metadata": None,
        },
    ),
    ("000600036e6577", "00000000000100", {"assignment_epoch": 1}),
    (
        "000700036e657700164251676b47755749545a435a33354450473643426577",
        "000002df9031aa2d564aedbbcd24fd6c4d383a0300000000000000010000",
        {},
    ),
    (
        "000800036e657700164251676b47755749545a435a33354450473643426577",
        "000000000001000000000002df9031aa2d564aedbbcd24fd6c4d383a030000000000000001000100",
        {"member_epoch": 1, "previous_member_epoch": 0, "state": 0, "partitions_pending_revocation": ()},
    ),
    (
        "0010000572656765780008285e6f72642e2a29",
        "000002076f7264657273000000000000001d000001a1fa5390ef00",
        {"topics": ("orders",), "version": 29, "timestamp": 1795201143023},
    ),
)


@pytest.mark.parametrize(("key_hex", "value_hex", "fields"), WRITTEN_BY_KAFKA)
def test_what_kafka_wrote_is_read_and_written_as_the_same_bytes(
    key_hex: str, value_hex: str, fields: dict[str, object]
) -> None:
    key_bytes, value_bytes = bytes.fromhex(key_hex), bytes.fromhex(value_hex)
    key = decode_key(key_bytes)
    assert key is not None
    value = decode_value(key, value_bytes)
    assert {name: getattr(value, name) for name in fields} == fields
    assert encode_key(key) == key_bytes
    assert encode_value(value) == value_bytes


KEY = OffsetCommitKey(group="g", topic="t", partition=1)


@pytest.mark.parametrize(
    ("version", "layout"),
    [(0, ">hqh4sq"), (1, ">hqh4sqq"), (2, ">hqh4sq"), (3, ">hqih4sq")],
)
def test_offsets_of_old_versions_are_read(version: int, layout: str) -> None:
    leader_epoch = (6,) if version == 3 else ()
    expire_timestamp = (9_000,) if version == 1 else ()
    data = struct.pack(layout, version, 77, *leader_epoch, 4, b"note", 8_000, *expire_timestamp)
    assert decode_value(KEY, data) == OffsetCommitValue(
        offset=77,
        leader_epoch=6 if version == 3 else -1,
        metadata="note",
        commit_timestamp=8_000,
        expire_timestamp=9_000 if version == 1 else -1,
    )


def test_keys_of_the_oldest_version_are_those_of_offsets() -> None:
    assert decode_key(b"\0\0" + encode_key(KEY)[2:]) == KEY


def test_an_offset_that_expires_is_written_in_the_only_version_that_can_say_so() -> None:
    value = OffsetCommitValue(offset=1, commit_timestamp=2, expire_timestamp=3)
    assert encode_value(value) == struct.pack(">hqhqq", 1, 1, 0, 2, 3)


def test_an_offset_with_a_topic_id_carries_it_as_a_tagged_field() -> None:
    topic_id = UUID("0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0")
    value = OffsetCommitValue(offset=1, leader_epoch=5, commit_timestamp=2, topic_id=topic_id)
    data = encode_value(value)
    assert data == struct.pack(">hqiBqBBB16s", 4, 1, 5, 1, 2, 1, 0, 16, topic_id.bytes)
    assert decode_value(KEY, data) == value


@pytest.mark.parametrize("version", range(5))
def test_groups_of_all_versions_are_read(version: int) -> None:
    flexible = version == 4

    def text(value: bytes) -> bytes:
        return (bytes((len(value) + 1,)) if flexible else struct.pack(">h", len(value))) + value

    def data(value: bytes) -> bytes:
        return (bytes((len(value) + 1,)) if flexible else struct.pack(">i", len(value))) + value

    tags = b"\1\x63\2ab" if flexible else b""
    member = (
        text(b"m")
        + (text(b"i") if version >= 3 else b"")
        + text(b"c")
        + text(b"h")
        + (struct.pack(">i", 60) if version >= 1 else b"")
        + struct.pack(">i", 30)
        + data(b"sub")
        + data(b"")
        + tags
    )
    value = (
        struct.pack(">h", version)
        + text(b"consumer")
        + struct.pack(">i", 4)
        + text(b"range")
        + text(b"m")
        + (struct.pack(">q", 99) if version >= 2 else b"")
        + (b"\2" if flexible else struct.pack(">i", 1))
        + member
        + tags
    )
    assert decode_value(GroupMetadataKey(group="g"), value) == GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=99 if version >= 2 else -1,
        members=(
            MemberMetadata(
                member_id="m",
                group_instance_id="i" if version >= 3 else None,
                client_id="c",
                client_host="h",
                rebalance_timeout=60 if version >= 1 else -1,
                session_timeout=30,
                subscription=b"sub",
                assignment=b"",
            ),
        ),
    )


@pytest.mark.parametrize("type_id", [9, 10, 15, 17, 23, 999, -1])
def test_records_of_other_types_are_skipped(type_id: int) -> None:
    assert decode_key(struct.pack(">h", type_id) + b"whatever") is None


def test_unknown_tagged_fields_are_skipped() -> None:
    data = bytes.fromhex("000000000003020008ffffffffffffffff0903616263")
    value = decode_value(ConsumerGroupMetadataKey(group_id="g"), data)
    assert value == ConsumerGroupMetadataValue(epoch=3, metadata_hash=-1)


def test_a_member_of_the_consumer_protocol_says_so_explicitly() -> None:
    """Kafka takes the absent field for a classic member of whom nothing is known."""
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    value = ConsumerGroupMemberMetadataValue(client_id="c", client_host="h")
    data = encode_value(value)
    assert data.endswith(b"\1\0\1\0")
    assert decode_value(key, data) == value
    absent = decode_value(key, data[:-4] + b"\0")
    assert isinstance(absent, ConsumerGroupMemberMetadataValue)
    assert absent.classic_member_metadata == ClassicMemberMetadata()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("", "the value of a group record has 0 bytes"),
        ("0005", "OffsetCommitValue: version 5 is unknown"),
        ("ffff", "OffsetCommitValue: version -1 is unknown"),
        ("00030000", "OffsetCommitValue v3: the data end within offset"),
        ("00030000000000000001ffffffff7fff", "OffsetCommitValue v3: metadata: 32767 bytes or items are declared, 0"),
        ("00030000000000000001ffffffffffff", "OffsetCommitValue v3: metadata: null is not allowed"),
        ("00030000000000000001fffffffffffe", "OffsetCommitValue v3: metadata: -2 bytes"),
        ("00030000000000000001ffffffff0001ff", "OffsetCommitValue v3: metadata is not UTF-8"),
        ("000200000000000000010000000000000000000155", "OffsetCommitValue v2: 1 bytes follow the last field"),
        (
            "000400000000000000010000000001000001a1fa538f95010003000000",
            "OffsetCommitValue v4: tagged fields: 16 bytes or items are declared, 3",
        ),
        (
            "000400000000000000010000000001000001a1fa538f9580808080808000",
            "OffsetCommitValue v4: tagged fields: a varint has more than five bytes",
        ),
    ],
)
def test_what_is_wrong_with_a_value_is_named(data: str, complaint: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        decode_value(KEY, bytes.fromhex(data))
    assert caught.value.message.startswith(complaint)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("00", "the key of a group record has 1 bytes"),
        ("0001000167", "OffsetCommitKey v0: the data end within topic"),
        ("00010001670001740000000100", "OffsetCommitKey v0: 1 bytes follow the last field"),
        ("00010001ff00017400000001", "OffsetCommitKey v0: group is not UTF-8"),
        ("0005000167ffff", "ConsumerGroupMemberMetadataKey v0: member_id: null is not allowed"),
    ],
)
def test_what_is_wrong_with_a_key_is_named(data: str, complaint: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        decode_key(bytes.fromhex(data))
    assert caught.value.message.startswith(complaint)


@given(
    group=st.text(max_size=40),
    topic=st.text(max_size=40),
    partition=st.integers(-(2**31), 2**31 - 1),
    offset=st.integers(-(2**63), 2**63 - 1),
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    timestamp=st.integers(0, 2**63 - 1),
    id_bytes=st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16)),
)
def test_what_is_written_by_hand_is_what_the_schema_writes(
    group: str, topic: str, partition: int, offset: int, leader_epoch: int, timestamp: int, id_bytes: bytes
) -> None:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    value = OffsetCommitValue(
        offset=offset, leader_epoch=leader_epoch, commit_timestamp=timestamp, topic_id=UUID(bytes=id_bytes)
    )
    by_schema = bytearray(b"\0\1")
    offset_commit.OFFSET_COMMIT_KEY.encode(0, key, by_schema)
    assert encode_key(key) == by_schema
    by_schema = bytearray(b"\0\4")
    offset_commit.OFFSET_COMMIT_VALUE.encode(4, value, by_schema)
    assert encode_value(value) == by_schema
    assert decode_value(key, encode_value(value)) == value
