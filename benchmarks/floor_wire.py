"""The few Kafka messages that the floor speaks, packed and unpacked by hand in one version each.

This is a measuring stick and no broker: it trusts its client, knows one partition per topic, and its encodings hold
just what librdkafka and our raw client need. Offsets into frames count from the API key; the length prefix is gone.
"""

import struct
from typing import NamedTuple

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 18, 19, 20, 22
SPOKEN_VERSIONS = {
    PRODUCE: 9,
    FETCH: 12,
    LIST_OFFSETS: 1,
    METADATA: 1,
    API_VERSIONS: 0,
    CREATE_TOPICS: 2,
    DELETE_TOPICS: 1,
    INIT_PRODUCER_ID: 0,
}
NODE_ID = 1
UNSUPPORTED_VERSION = 35
EARLIEST_TIMESTAMP = -2

LENGTH = struct.Struct(">i")
HEADER = struct.Struct(">hhi")
"""API key, API version, correlation id; the client id follows."""
_INT16 = struct.Struct(">h")
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_FETCH_BOUNDS = struct.Struct(">iiiibii")
"""Replica, longest wait, fewest bytes, most bytes, isolation level, session id and epoch."""
_FETCH_PARTITION = struct.Struct(">iiqiqi")
"""Index, leader epoch, offset, last fetched epoch, log start offset, most bytes."""


class ProduceRequest(NamedTuple):
    topic: bytes
    acks: int
    batch: memoryview


class FetchRequest(NamedTuple):
    topic: bytes
    offset: int
    partition_bytes_max: int
    wait_ms_max: int


def read_body_offset(frame: memoryview, *, flexible: bool) -> int:
    """Return where the body begins: behind the client id and, in flexible versions, no tagged fields."""
    client_id_size: int = _INT16.unpack_from(frame, HEADER.size)[0]
    return HEADER.size + _INT16.size + max(client_id_size, 0) + flexible


def read_uvarint(frame: memoryview, offset: int) -> tuple[int, int]:
    """Return an unsigned varint and the offset behind it."""
    value = shift = 0
    while True:
        byte = frame[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7


def write_uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    output = bytearray()
    while value >= 0x80:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)
    return bytes(output)


def read_produce(frame: memoryview) -> ProduceRequest:
    """Unpack a Produce v9 request of one partition of one topic."""
    offset = read_body_offset(frame, flexible=True)
    size, offset = read_uvarint(frame, offset)  # transactional id
    offset += max(size - 1, 0)
    acks, _ = _ACKS_AND_TIMEOUT.unpack_from(frame, offset)
    topic, offset = _read_only_topic(frame, offset + _ACKS_AND_TIMEOUT.size)
    size, offset = read_uvarint(frame, offset + 4)
    return ProduceRequest(topic, acks, frame[offset : offset + size - 1])


def read_fetch(frame: memoryview) -> FetchRequest | None:
    """Unpack a Fetch v12 request of one partition of one topic; None if it asks for none."""
    offset = read_body_offset(frame, flexible=True)
    wait_ms_max = _FETCH_BOUNDS.unpack_from(frame, offset)[1]
    offset += _FETCH_BOUNDS.size
    if frame[offset] == 1:  # an empty compact array
        return None
    topic, offset = _read_only_topic(frame, offset)
    _, _, fetch_offset, _, _, bytes_max = _FETCH_PARTITION.unpack_from(frame, offset)
    return FetchRequest(topic, fetch_offset, bytes_max, wait_ms_max)


def read_topic_names(frame: memoryview) -> list[bytes]:
    """Unpack the topics of a CreateTopics v2 (one topic), DeleteTopics v1 or Metadata v1 request."""
    offset = read_body_offset(frame, flexible=False)
    (count,) = LENGTH.unpack_from(frame, offset)
    offset += LENGTH.size
    names = []
    for _ in range(min(count, 1) if HEADER.unpack_from(frame)[0] == CREATE_TOPICS else max(count, 0)):
        (size,) = _INT16.unpack_from(frame, offset)
        offset += _INT16.size + size
        names.append(bytes(frame[offset - size : offset]))
    return names


def read_list_offsets(frame: memoryview) -> tuple[bytes, int]:
    """Unpack topic and timestamp of a ListOffsets v1 request of one partition."""
    offset = read_body_offset(frame, flexible=False) + 4 + 4
    (size,) = _INT16.unpack_from(frame, offset)
    offset += _INT16.size + size
    (timestamp,) = struct.unpack_from(">q", frame, offset + 4 + 4)
    return bytes(frame[offset - size : offset]), timestamp


def write_response(correlation_id: int, body: bytes, *, flexible: bool = False, more_bytes: int = 0) -> bytes:
    """Return a response's frame, or the beginning of one of which `more_bytes` are sent separately."""
    tag = b"\0" if flexible else b""
    return struct.pack(">ii", 4 + len(tag) + len(body) + more_bytes, correlation_id) + tag + body


def write_produced(topic: bytes, base_offset: int) -> bytes:
    """Pack a Produce v9 response."""
    answer = struct.pack(">ihqqqBBB", 0, 0, base_offset, -1, 0, 1, 0, 0)
    return b"\2" + write_uvarint(len(topic) + 1) + topic + b"\2" + answer + b"\0" + b"\0\0\0\0" + b"\0"


FETCHED_TAIL = b"\0\0\0"
"""The tagged fields of a Fetch v12 response that follow the records: the partition's, the topic's, the body's."""
NOTHING_FETCHED = struct.pack(">ihi", 0, 0, 0) + b"\1\0"


def write_fetched_head(topic: bytes, end_offset: int, records_bytes: int) -> bytes:
    """Pack a Fetch v12 response up to its records."""
    partition = struct.pack(">ihqqqBi", 0, 0, end_offset, end_offset, 0, 0, -1) + write_uvarint(records_bytes + 1)
    return struct.pack(">ihi", 0, 0, 0) + b"\2" + write_uvarint(len(topic) + 1) + topic + b"\2" + partition


def write_api_versions(error: int) -> bytes:
    """Pack an ApiVersions v0 response, the form that every client understands."""
    versions = b"".join(struct.pack(">hhh", key, version, version) for key, version in SPOKEN_VERSIONS.items())
    return struct.pack(">hi", error, len(SPOKEN_VERSIONS)) + versions


def write_metadata(host: bytes, port: int, topics: list[bytes]) -> bytes:
    """Pack a Metadata v1 response: one broker that leads partition 0 of every topic."""
    body = struct.pack(">iih", 1, NODE_ID, len(host)) + host + struct.pack(">ihii", port, -1, NODE_ID, len(topics))
    for topic in topics:
        partition = struct.pack(">hiiiiii", 0, 0, NODE_ID, 1, NODE_ID, 1, NODE_ID)
        body += struct.pack(">hh", 0, len(topic)) + topic + struct.pack(">bi", 0, 1) + partition
    return body


def write_listed_offset(topic: bytes, offset: int) -> bytes:
    """Pack a ListOffsets v1 response."""
    return struct.pack(">ih", 1, len(topic)) + topic + struct.pack(">iihqq", 1, 0, 0, -1, offset)


def write_created_topics(topics: list[bytes]) -> bytes:
    """Pack a CreateTopics v2 response in which all went well."""
    results = b"".join(struct.pack(">h", len(topic)) + topic + struct.pack(">hh", 0, -1) for topic in topics)
    return struct.pack(">ii", 0, len(topics)) + results


def write_deleted_topics(topics: list[bytes]) -> bytes:
    """Pack a DeleteTopics v1 response in which all went well."""
    results = b"".join(struct.pack(">h", len(topic)) + topic + struct.pack(">h", 0) for topic in topics)
    return struct.pack(">ii", 0, len(topics)) + results


def write_producer_id(producer_id: int) -> bytes:
    """Pack an InitProducerId v0 response."""
    return struct.pack(">ihqh", 0, 0, producer_id, 0)


def _read_only_topic(frame: memoryview, offset: int) -> tuple[bytes, int]:
    """Return the name of the only topic and the offset of its only partition."""
    assert frame[offset] == 2, "the floor handles one topic per request"
    size, offset = read_uvarint(frame, offset + 1)
    end = offset + size - 1
    assert frame[end] == 2, "the floor handles one partition per request"
    return bytes(frame[offset:end]), end + 1
