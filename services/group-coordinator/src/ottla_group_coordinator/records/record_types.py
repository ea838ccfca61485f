"""The table of record types, and reading and writing any of them.

A key begins with two bytes that tell the record's type (Kafka calls them the key's version), a value with two bytes
that tell its version. Records of types that are not in the table, such as those of share groups, are skipped.

Source: `CoordinatorRecordType` and the schemas beside it in Kafka's group coordinator.
"""

import struct
from typing import Any, NamedTuple

from ottla_core.errors import InvalidRecord
from ottla_group_coordinator.records import consumer_group as consumer
from ottla_group_coordinator.records import offset_commit
from ottla_group_coordinator.records.field_codec import Schema
from ottla_group_coordinator.records.group_metadata import (
    GROUP_METADATA_KEY,
    GROUP_METADATA_VALUE,
    WRITTEN_VERSION,
    GroupMetadataKey,
    GroupMetadataValue,
)
from ottla_group_coordinator.records.offset_commit import (
    OFFSET_COMMIT_KEY,
    OFFSET_COMMIT_VALUE,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla_group_coordinator.runtime.state_machine import RecordFormat

RecordKey = (
    OffsetCommitKey
    | GroupMetadataKey
    | consumer.ConsumerGroupMetadataKey
    | consumer.ConsumerGroupPartitionMetadataKey
    | consumer.ConsumerGroupMemberMetadataKey
    | consumer.ConsumerGroupTargetAssignmentMetadataKey
    | consumer.ConsumerGroupTargetAssignmentMemberKey
    | consumer.ConsumerGroupCurrentMemberAssignmentKey
    | consumer.ConsumerGroupRegularExpressionKey
)
RecordValue = (
    OffsetCommitValue
    | GroupMetadataValue
    | consumer.ConsumerGroupMetadataValue
    | consumer.ConsumerGroupPartitionMetadataValue
    | consumer.ConsumerGroupMemberMetadataValue
    | consumer.ConsumerGroupTargetAssignmentMetadataValue
    | consumer.ConsumerGroupTargetAssignmentMemberValue
    | consumer.ConsumerGroupCurrentMemberAssignmentValue
    | consumer.ConsumerGroupRegularExpressionValue
)


class RecordType(NamedTuple):
    """One type of record; `value_version` is the one that is written."""

    key: Schema[Any]
    value: Schema[Any]
    value_version: int = 0


_OFFSET_COMMIT = RecordType(OFFSET_COMMIT_KEY, OFFSET_COMMIT_VALUE)
_OLD_OFFSET_COMMIT_ID = 0

RECORD_TYPES = {
    _OLD_OFFSET_COMMIT_ID: _OFFSET_COMMIT,
    offset_commit.TYPE_ID: _OFFSET_COMMIT,
    2: RecordType(GROUP_METADATA_KEY, GROUP_METADATA_VALUE, WRITTEN_VERSION),
    3: RecordType(consumer.CONSUMER_GROUP_METADATA_KEY, consumer.CONSUMER_GROUP_METADATA_VALUE),
    4: RecordType(consumer.CONSUMER_GROUP_PARTITION_METADATA_KEY, consumer.CONSUMER_GROUP_PARTITION_METADATA_VALUE),
    5: RecordType(consumer.CONSUMER_GROUP_MEMBER_METADATA_KEY, consumer.CONSUMER_GROUP_MEMBER_METADATA_VALUE),
    6: RecordType(
        consumer.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
        consumer.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
    ),
    7: RecordType(
        consumer.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY, consumer.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE
    ),
    8: RecordType(
        consumer.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
        consumer.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
    ),
    16: RecordType(consumer.CONSUMER_GROUP_REGULAR_EXPRESSION_KEY, consumer.CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE),
}
_TYPE_IDS = {
    type_.key.message_type: type_id for type_id, type_ in RECORD_TYPES.items() if type_id != _OLD_OFFSET_COMMIT_ID
}
_KEY_TYPES = {type_.key.message_type: type_ for type_ in RECORD_TYPES.values()}
_VALUE_TYPES = {type_.value.message_type: type_ for type_ in RECORD_TYPES.values()}

_INT16 = struct.Struct(">h")


def encode_key(key: RecordKey) -> bytes:
    """Return a key's bytes."""
    if isinstance(key, OffsetCommitKey):
        return offset_commit.encode_key(key)
    output = bytearray(_INT16.pack(_TYPE_IDS[type(key)]))
    _KEY_TYPES[type(key)].key.encode(0, key, output)
    return bytes(output)


def encode_value(value: RecordValue) -> bytes:
    """Return a value's bytes in the version that Kafka 4 writes."""
    if isinstance(value, OffsetCommitValue) and (usual := offset_commit.encode_value(value)) is not None:
        return usual
    type_ = _VALUE_TYPES[type(value)]
    version = value.version if isinstance(value, OffsetCommitValue) else type_.value_version
    output = bytearray(_INT16.pack(version))
    type_.value.encode(version, value, output)
    return bytes(output)


def decode_key(data: bytes) -> RecordKey | None:
    """Return a key, or None if the record is of a type to be skipped.

    Raises:
        InvalidRecord: the bytes are no key.
    """
    type_id = _version_of(data, "key")
    if type_id == offset_commit.TYPE_ID:
        return offset_commit.decode_key(data)
    type_ = RECORD_TYPES.get(type_id)
    if type_ is None:
        return None
    key: RecordKey = type_.key.decode(0, data, _INT16.size)
    return key


def decode_value(key: RecordKey, data: bytes) -> RecordValue:
    """Return the value that belongs to a key.

    Raises:
        InvalidRecord: the bytes are no such value, or of a version that is not known.
    """
    if type(key) is OffsetCommitKey and (committed := offset_commit.decode_value(data)) is not None:
        return committed
    value: RecordValue = _KEY_TYPES[type(key)].value.decode(_version_of(data, "value"), data, _INT16.size)
    return value


GROUP_RECORDS = RecordFormat(
    encode_key=encode_key, encode_value=encode_value, decode_key=decode_key, decode_value=decode_value
)
"""The format of the records of a shard of groups."""


def _version_of(data: bytes, part: str) -> int:
    if len(data) < _INT16.size:
        raise InvalidRecord(f"the {part} of a group record has {len(data)} bytes, it begins with two of its version")
    version: int = _INT16.unpack_from(data)[0]
    return version
