"""Decoding of ProduceRequest, versions 3 to 13, without copying the records.

Written by hand because it is on the path of every produce: kio copies the records into a bytes object (41 µs per
megabyte), and its reader needs the check of `bounds` first. Here every length is checked as it is read, and the
records are views into the frame, which are good only until the frame has been handled.

Source of the layout: Kafka's ProduceRequest.json.
"""

import struct
from typing import NamedTuple
from uuid import UUID

from ottla_core.errors import InvalidRequest
from ottla_core.wire.bounds import read_unsigned_varint, skip_tagged_fields

PARTITIONS_MAX = 20_000
"""Topics of a request, and partitions of a topic: a mebibyte has no room for as many batches."""
FIRST_FLEXIBLE_VERSION = 9
FIRST_VERSION_BY_TOPIC_ID = 13

_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from
_acks_and_timeout = struct.Struct(">hi").unpack_from


class PartitionData(NamedTuple):
    """Records for one partition; a view into the request's frame, or None."""

    partition: int
    records: memoryview | None


class TopicData(NamedTuple):
    """Records for one topic, which is named by its name or, from version 13 on, by its id."""

    topic: str | UUID
    partitions: list[PartitionData]


class ProduceRequest(NamedTuple):
    """A request to append records; `timeout_ms` bounds the wait for in-sync replicas."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicData]


def read_produce_request(frame: memoryview, offset: int, version: int) -> ProduceRequest:
    """Return the request that begins at `offset`.

    Raises:
        InvalidRequest: the bytes are no such request.
    """
    try:
        return _read_flexible(frame, offset, version) if version >= FIRST_FLEXIBLE_VERSION else _read(frame, offset)
    except (IndexError, struct.error):
        raise InvalidRequest(f"ProduceRequest v{version} ends before it is complete") from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"ProduceRequest v{version} has a string that is not UTF-8") from None


def _read_flexible(frame: memoryview, position: int, version: int) -> ProduceRequest:
    transactional_id, position = _read_compact_string(frame, position)
    acks, timeout_ms = _acks_and_timeout(frame, position)
    topic_count, position = _read_compact_count(frame, position + 6)
    topics: list[TopicData] = []
    for _ in range(topic_count):
        topic: str | UUID | None
        if version >= FIRST_VERSION_BY_TOPIC_ID:
            topic = UUID(bytes=bytes(_slice(frame, position, 16)))
            position += 16
        else:
            topic, position = _read_compact_string(frame, position)
        partition_count, position = _read_compact_count(frame, position)
        partitions: list[PartitionData] = []
        for _ in range(partition_count):
            (index,) = _int32(frame, position)
            size, position = _read_size(frame, position + 4)
            records = None if size < 0 else _slice(frame, position, size)
            position = skip_tagged_fields(frame, position if size < 0 else position + size)
            partitions.append(PartitionData(index, records))
        position = skip_tagged_fields(frame, position)
        topics.append(TopicData(_not_null(topic), partitions))
    skip_tagged_fields(frame, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read(frame: memoryview, position: int) -> ProduceRequest:
    transactional_id, position = _read_string(frame, position)
    acks, timeout_ms = _acks_and_timeout(frame, position)
    topic_count, position = _read_count(frame, position + 6)
    topics: list[TopicData] = []
    for _ in range(topic_count):
        topic, position = _read_string(frame, position)
        partition_count, position = _read_count(frame, position)
        partitions: list[PartitionData] = []
        for _ in range(partition_count):
            (index,) = _int32(frame, position)
            (size,) = _int32(frame, position + 4)
            position += 8
            records = _slice(frame, position, size) if size >= 0 else None
            position += max(size, 0)
            partitions.append(PartitionData(index, records))
        topics.append(TopicData(_not_null(topic), partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _slice(frame: memoryview, position: int, size: int) -> memoryview:
    end = position + size
    if end > len(frame):
        raise InvalidRequest(f"{size} bytes are announced, {len(frame) - position} follow")
    return frame[position:end]


def _not_null(topic: str | UUID | None) -> str | UUID:
    if topic is None:
        raise InvalidRequest("a topic has no name")
    return topic


def _checked_count(frame: memoryview, position: int, count: int) -> int:
    """Return an array's count (null counts as empty) if so many items can follow."""
    if count > min(PARTITIONS_MAX, len(frame) - position):
        raise InvalidRequest(f"{count} items are announced, {len(frame) - position} bytes follow")
    return max(count, 0)


def _read_size(frame: memoryview, position: int) -> tuple[int, int]:
    """Return a compact length, -1 for null; short ones are told apart first, for speed."""
    size = frame[position]
    if size < 0x80:
        return size - 1, position + 1
    size, position = read_unsigned_varint(frame, position)
    return size - 1, position


def _read_compact_count(frame: memoryview, position: int) -> tuple[int, int]:
    count, position = _read_size(frame, position)
    return (count if count == 1 else _checked_count(frame, position, count)), position


def _read_count(frame: memoryview, position: int) -> tuple[int, int]:
    (count,) = _int32(frame, position)
    return _checked_count(frame, position + 4, count), position + 4


def _read_compact_string(frame: memoryview, position: int) -> tuple[str | None, int]:
    size, position = _read_size(frame, position)
    if size < 0:
        return None, position
    return str(_slice(frame, position, size), "utf-8"), position + size


def _read_string(frame: memoryview, position: int) -> tuple[str | None, int]:
    (size,) = _int16(frame, position)
    position += 2
    if size < 0:
        return None, position
    return str(_slice(frame, position, size), "utf-8"), position + size
