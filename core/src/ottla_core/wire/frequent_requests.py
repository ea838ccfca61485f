"""Heartbeat and OffsetCommit requests of the usual shape, read by hand into kio's classes.

A coordinator reads little else, and kio's reader takes, after the check of every length that must come before it
(`bounds.py`), two to three times as long. What is not usual is left to those: a reader returns None for a message
that is malformed, or has a null, a tagged field or a length that hardly any has. So whether bytes are a request is
decided in one place, and never here.

Source: Kafka's HeartbeatRequest.json and OffsetCommitRequest.json.
"""

import struct
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from kio.index import load_request_schema

from ottla_core.wire.conversion import field_setters, item_type
from ottla_core.wire.group_responses import HEARTBEAT, OFFSET_COMMIT

FIRST_FLEXIBLE_HEARTBEAT = 4
FIRST_FLEXIBLE_OFFSET_COMMIT = 8
FIRST_OFFSET_COMMIT_WITH_TOPIC_IDS = 10

USUAL_LENGTH_MAX = 0x7E
"""The longest string or array that a varint of one byte can announce, as it says one more."""

NO_TAGS = 0
_ID_BYTES = 16
_NO_ID = bytes(_ID_BYTES)
_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from
_int64 = struct.Struct(">q").unpack_from
_place = struct.Struct(">iqi")
_place_without_epoch = struct.Struct(">iq")

Text = tuple[str | None, int]
"""A string, or None for null, and the position behind it."""

ReadText = Callable[[bytes, int], Text]


class _Unusual(Exception):
    """The message is left to kio."""


def _compact_text(data: bytes, position: int) -> Text:
    size = data[position]
    begin = position + 1
    if size == 0:
        return None, begin
    end = begin + size - 1
    if size > USUAL_LENGTH_MAX + 1 or end > len(data):
        raise _Unusual
    return data[begin:end].decode(), end


def _text(data: bytes, position: int) -> Text:
    (size,) = _int16(data, position)
    begin = position + 2
    if size == -1:
        return None, begin
    end = begin + size
    if not 0 <= size <= USUAL_LENGTH_MAX or end > len(data):
        raise _Unusual
    return data[begin:end].decode(), end


def _compact_count(data: bytes, position: int) -> tuple[int, int]:
    count = data[position] - 1
    if not 0 <= count <= USUAL_LENGTH_MAX:
        raise _Unusual
    return count, position + 1


def _count(data: bytes, position: int) -> tuple[int, int]:
    (count,) = _int32(data, position)
    if not 0 <= count <= USUAL_LENGTH_MAX:
        raise _Unusual
    return count, position + 4


def _no_tags(data: bytes, position: int) -> int:
    if data[position] != NO_TAGS:
        raise _Unusual
    return position + 1


class _HeartbeatReader:
    """Reads one version of Heartbeat."""

    def __init__(self, version: int) -> None:
        self._type = load_request_schema(HEARTBEAT, version)
        set_field = field_setters(self._type)
        self._set_group_id = set_field["group_id"]
        self._set_generation_id = set_field["generation_id"]
        self._set_member_id = set_field["member_id"]
        self._set_instance_id = set_field.get("group_instance_id")
        self._flexible = version >= FIRST_FLEXIBLE_HEARTBEAT
        self._text = _compact_text if self._flexible else _text

    def __call__(self, data: bytes, position: int) -> Any:
        """Return the message.

        Raises:
            _Unusual, IndexError, struct.error, ValueError, OverflowError: it is left to kio.
        """
        text = self._text
        group_id, position = text(data, position)
        (generation_id,) = _int32(data, position)
        member_id, position = text(data, position + 4)
        if group_id is None or member_id is None:
            raise _Unusual
        message = self._type.__new__(self._type)
        self._set_group_id(message, group_id)
        self._set_generation_id(message, generation_id)
        self._set_member_id(message, member_id)
        if self._set_instance_id is not None:
            instance_id, position = text(data, position)
            self._set_instance_id(message, instance_id)
        if self._flexible:
            _no_tags(data, position)
        return message


class _OffsetCommitReader:
    """Reads one version of OffsetCommit."""

    def __init__(self, version: int) -> None:
        self._type: Any = load_request_schema(OFFSET_COMMIT, version)
        self._topic_type: Any = item_type(self._type, "topics")
        self._partition_type: Any = item_type(self._topic_type, "partitions")
        set_field = field_setters(self._type)
        self._set_group_id = set_field["group_id"]
        self._set_generation = set_field["generation_id_or_member_epoch"]
        self._set_member_id = set_field["member_id"]
        self._set_instance_id = set_field.get("group_instance_id")
        self._set_retention = set_field.get("retention_time")
        self._set_topics = set_field["topics"]
        set_of_topic = field_setters(self._topic_type)
        self._by_id = version >= FIRST_OFFSET_COMMIT_WITH_TOPIC_IDS
        self._set_topic = set_of_topic["topic_id" if self._by_id else "name"]
        self._set_partitions = set_of_topic["partitions"]
        set_of_partition = field_setters(self._partition_type)
        self._set_index = set_of_partition["partition_index"]
        self._set_offset = set_of_partition["committed_offset"]
        self._set_epoch = set_of_partition.get("committed_leader_epoch")
        self._set_metadata = set_of_partition["committed_metadata"]
        self._flexible = version >= FIRST_FLEXIBLE_OFFSET_COMMIT
        self._text: ReadText = _compact_text if self._flexible else _text
        self._count = _compact_count if self._flexible else _count

    def __call__(self, data: bytes, position: int) -> Any:
        """Return the message.

        Raises:
            _Unusual, IndexError, struct.error, ValueError, OverflowError: it is left to kio.
        """
        text = self._text
        group_id, position = text(data, position)
        (generation,) = _int32(data, position)
        member_id, position = text(data, position + 4)
        if group_id is None or member_id is None:
            raise _Unusual
        message = self._type.__new__(self._type)
        self._set_group_id(message, group_id)
        self._set_generation(message, generation)
        self._set_member_id(message, member_id)
        if self._set_instance_id is not None:
            instance_id, position = text(data, position)
            self._set_instance_id(message, instance_id)
        if self._set_retention is not None:
            (retention_ms,) = _int64(data, position)
            self._set_retention(message, timedelta(milliseconds=retention_ms))
            position += 8
        count, position = self._count(data, position)
        topics = []
        for _ in range(count):
            topic, position = self._topic(data, position)
            topics.append(topic)
        self._set_topics(message, tuple(topics))
        if self._flexible:
            _no_tags(data, position)
        return message

    def _topic(self, data: bytes, position: int) -> tuple[Any, int]:
        topic = self._topic_type.__new__(self._topic_type)
        if self._by_id:
            topic_id = data[position : position + _ID_BYTES]
            position += _ID_BYTES
            self._set_topic(topic, None if topic_id == _NO_ID else UUID(bytes=topic_id))
        else:
            name, position = self._text(data, position)
            if name is None:
                raise _Unusual
            self._set_topic(topic, name)
        count, position = self._count(data, position)
        partitions = []
        for _ in range(count):
            partition, position = self._partition(data, position)
            partitions.append(partition)
        self._set_partitions(topic, tuple(partitions))
        return topic, _no_tags(data, position) if self._flexible else position

    def _partition(self, data: bytes, position: int) -> tuple[Any, int]:
        partition = self._partition_type.__new__(self._partition_type)
        if self._set_epoch is not None:
            index, offset, epoch = _place.unpack_from(data, position)
            position += _place.size
            self._set_epoch(partition, epoch)
        else:
            index, offset = _place_without_epoch.unpack_from(data, position)
            position += _place_without_epoch.size
        metadata, position = self._text(data, position)
        self._set_index(partition, index)
        self._set_offset(partition, offset)
        self._set_metadata(partition, metadata)
        return partition, _no_tags(data, position) if self._flexible else position


_READERS: Mapping[int, Callable[[int], Callable[[bytes, int], Any]]] = {
    HEARTBEAT: _HeartbeatReader,
    OFFSET_COMMIT: _OffsetCommitReader,
}


@cache
def _reader(api_key: int, version: int) -> Callable[[bytes, int], Any] | None:
    made = _READERS.get(api_key)
    return None if made is None else made(version)


def read_frequent_request(api_key: int, version: int, frame: bytes, offset: int) -> Any:
    """Return the message in kio's class of its version, or None if it has to be read by kio.

    Args:
        api_key: any API.
        version: one that kio knows.
        frame: the request without its length.
        offset: where its message begins.
    """
    read = _reader(api_key, version)
    if read is None:
        return None
    try:
        return read(frame, offset)
    except (_Unusual, IndexError, struct.error, ValueError, OverflowError):
        return None
