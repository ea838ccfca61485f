"""OffsetCommit records: where a group has got to in one partition.

These are by far the most records of a shard, and a shard is not served before all are read. So apart from the
declarative schemas, with which all versions can be read and written, the usual ones are read and written by hand:
keys, and values of the newest version without metadata, of which there are just two lengths.
"""

import struct
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from ottla_group_coordinator.records.field_codec import (
    INT32,
    INT64,
    NO_UUID,
    STRING,
    STRING_BYTES_MAX,
    UUID_BYTES,
    Field,
    Schema,
)
from ottla_group_coordinator.runtime.shard_batches import RECORD_OVERHEAD_BYTES_MAX

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

EXPIRING_VERSION = 1
"""The only version that has an expire timestamp; it lacks the leader epoch."""

NEWEST_VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey:
    """A group and a partition."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    """A committed offset.

    Attributes:
        leader_epoch: of the last record consumed, or -1 if unknown.
        commit_timestamp: epoch milliseconds.
        expire_timestamp: epoch milliseconds at which the offset is forgotten, whatever the retention says; or -1.
        topic_id: of the topic at the time of the commit, or `NO_UUID` if unknown.
    """

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    topic_id: UUID = NO_UUID

    @property
    def version(self) -> int:
        """The version that Kafka writes: the newest, or the one that can tell when the offset expires."""
        return NEWEST_VERSION if self.expire_timestamp == NO_TIMESTAMP else EXPIRING_VERSION


OFFSET_COMMIT_KEY = Schema(
    OffsetCommitKey, [Field("group", STRING), Field("topic", STRING), Field("partition", INT32)]
)
OFFSET_COMMIT_VALUE = Schema(
    OffsetCommitValue,
    [
        Field("offset", INT64),
        Field("leader_epoch", INT32, since=3, default=NO_LEADER_EPOCH),
        Field("metadata", STRING),
        Field("commit_timestamp", INT64),
        Field("expire_timestamp", INT64, since=1, until=1, default=NO_TIMESTAMP),
        Field("topic_id", UUID_BYTES, since=4, default=NO_UUID, tag=0),
    ],
    version_max=NEWEST_VERSION,
    flexible_since=4,
)

TYPE_ID = 1
"""What a key begins with."""

TOPIC_IDS_KEPT_MAX = 65_536
"""So many ids of topics are kept as objects, so that all offsets of a topic share one."""

_KEY_FIXED_BYTES = 10
_VALUE_FIXED_BYTES_MAX = 46
_PARTITION = struct.Struct(">i")
_LENGTH = struct.Struct(">h")
_LENGTHS = struct.Struct(">hh")
_ID_BYTES = 16
_WITHOUT_ID = struct.Struct(">hqiBqB")
_WITH_ID = struct.Struct(">hqiBqBBB16s")
_EMPTY_TEXT = 1

# The generated `__init__` of a frozen dataclass takes three times as long as these.
_new_key = OffsetCommitKey.__new__
_new_value = OffsetCommitValue.__new__
_set_group = OffsetCommitKey.__dict__["group"].__set__
_set_topic = OffsetCommitKey.__dict__["topic"].__set__
_set_partition = OffsetCommitKey.__dict__["partition"].__set__
_set_offset = OffsetCommitValue.__dict__["offset"].__set__
_set_leader_epoch = OffsetCommitValue.__dict__["leader_epoch"].__set__
_set_metadata = OffsetCommitValue.__dict__["metadata"].__set__
_set_commit_timestamp = OffsetCommitValue.__dict__["commit_timestamp"].__set__
_set_expire_timestamp = OffsetCommitValue.__dict__["expire_timestamp"].__set__
_set_topic_id = OffsetCommitValue.__dict__["topic_id"].__set__


def make_key(group: str, topic: str, partition: int) -> OffsetCommitKey:
    """Return a key; what commits are made of, as fast as can be."""
    key = _new_key(OffsetCommitKey)
    _set_group(key, group)
    _set_topic(key, topic)
    _set_partition(key, partition)
    return key


def make_value(  # noqa: PLR0917  a call by name costs more
    offset: int, leader_epoch: int, metadata: str, commit_timestamp: int, expire_timestamp: int, topic_id: UUID
) -> OffsetCommitValue:
    """Return a value; what commits are made of, as fast as can be."""
    value = _new_value(OffsetCommitValue)
    _set_offset(value, offset)
    _set_leader_epoch(value, leader_epoch)
    _set_metadata(value, metadata)
    _set_commit_timestamp(value, commit_timestamp)
    _set_expire_timestamp(value, expire_timestamp)
    _set_topic_id(value, topic_id)
    return value


def decode_key(data: bytes) -> OffsetCommitKey:
    """Read a key, its type included.

    Raises:
        InvalidRecord: the bytes are no such key.
    """
    try:
        group_end = 4 + (data[2] << 8 | data[3])
        topic_end = group_end + 2 + (data[group_end] << 8 | data[group_end + 1])
        if topic_end + _PARTITION.size == len(data):
            group, topic = data[4:group_end].decode(), data[group_end + 2 : topic_end].decode()
            return make_key(group, topic, _PARTITION.unpack_from(data, topic_end)[0])
    except (IndexError, UnicodeDecodeError):
        pass  # the schema says what is wrong
    return OFFSET_COMMIT_KEY.decode(0, data, 2)


def decode_value(data: bytes) -> OffsetCommitValue | None:
    """Read a value, its version included, if it is of a usual shape; otherwise return None."""
    if len(data) == _WITHOUT_ID.size:
        version, offset, leader_epoch, text, commit_timestamp, tag_count = _WITHOUT_ID.unpack(data)
        if tag_count != 0:
            return None
        topic_id = NO_UUID
    elif len(data) == _WITH_ID.size:
        version, offset, leader_epoch, text, commit_timestamp, tag_count, tag, size, id_bytes = _WITH_ID.unpack(data)
        if tag_count != 1 or tag != 0 or size != len(id_bytes):
            return None
        topic_id = _topic_id(id_bytes)
    else:
        return None
    if version != NEWEST_VERSION or text != _EMPTY_TEXT:
        return None
    return make_value(offset, leader_epoch, "", commit_timestamp, NO_TIMESTAMP, topic_id)


def encode_key(key: OffsetCommitKey) -> bytes:
    """Return a key's bytes, its type included."""
    group, topic = key.group.encode(), key.topic.encode()
    if len(group) > STRING_BYTES_MAX or len(topic) > STRING_BYTES_MAX:
        output = bytearray(_LENGTH.pack(TYPE_ID))
        OFFSET_COMMIT_KEY.encode(0, key, output)  # which says what is wrong
        return bytes(output)
    return b"".join(
        (_LENGTHS.pack(TYPE_ID, len(group)), group, _LENGTH.pack(len(topic)), topic, _PARTITION.pack(key.partition))
    )


def encode_value(value: OffsetCommitValue) -> bytes | None:
    """Return a value's bytes, its version included, if it is of a usual shape; otherwise return None."""
    if value.metadata or value.expire_timestamp != NO_TIMESTAMP:
        return None
    fixed = NEWEST_VERSION, value.offset, value.leader_epoch, _EMPTY_TEXT, value.commit_timestamp
    if value.topic_id == NO_UUID:
        return _WITHOUT_ID.pack(*fixed, 0)
    return _WITH_ID.pack(*fixed, 1, 0, _ID_BYTES, value.topic_id.bytes)


@lru_cache(maxsize=TOPIC_IDS_KEPT_MAX)
def _topic_id(data: bytes) -> UUID:
    return UUID(bytes=data)


def record_bytes_max(group_id: str, topic: str, metadata: str = "") -> int:
    """Return how many bytes an OffsetCommit record, or its tombstone, takes at most in a record batch."""
    text_bytes = len(group_id.encode()) + len(topic.encode()) + len(metadata.encode())
    return text_bytes + _KEY_FIXED_BYTES + _VALUE_FIXED_BYTES_MAX + RECORD_OVERHEAD_BYTES_MAX
