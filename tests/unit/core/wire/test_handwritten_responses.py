"""The hand-written encoders agree with kio's general one, in every version."""

import struct
from dataclasses import dataclass
from uuid import UUID

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from ottla_core.wire.fetch_response import PartitionFetched, encode_fetch_response
from ottla_core.wire.leader_hint import CurrentLeader, NodeEndpoint
from ottla_core.wire.messages import message_codec
from ottla_core.wire.produce_response import PartitionProduced, encode_produce_response

PRODUCE, FETCH = 0, 1
TOPIC_ID = UUID("11223344-5566-7788-99aa-bbccddeeff00")
ENDPOINT = NodeEndpoint(2, "127.0.0.1", 9093, None)


@dataclass
class Content:
    """Stands for a file range."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)


def decode(api_key: int, version: int, frame: bytes):
    codec = message_codec(api_key, version)
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    header = codec.response_header(7)
    assert frame[4 : 4 + len(header)] == header
    body = memoryview(frame)[4 + len(header) :].toreadonly()
    message, size = entity_reader(load_response_schema(api_key, version))(body, 0)
    assert size == len(body), "bytes were left over"
    return message


@pytest.mark.parametrize("version", range(3, 14))
def test_a_produce_response_is_what_kio_reads(version: int) -> None:
    topic = TOPIC_ID if version >= 13 else "flights"
    produced = PartitionProduced(
        3, ErrorCode.none, base_offset=42, log_append_time_ms=1_700_000_000_123, log_start_offset=5
    )
    refused = PartitionProduced(
        4,
        ErrorCode.not_leader_or_follower,
        error_message="ask broker 2",
        current_leader=CurrentLeader(2, 9),
        record_errors=[(7, "no key"), (9, "no key")],
    )
    header = message_codec(PRODUCE, version).response_header(7)
    frame = encode_produce_response(version, header, [(topic, [produced, refused])], [ENDPOINT])

    (answered,) = decode(PRODUCE, version, frame).responses
    first, second = answered.partition_responses
    assert (answered.topic_id if version >= 13 else answered.name) == topic
    assert (first.index, first.error_code, first.base_offset) == (3, ErrorCode.none, 42)
    assert first.log_append_time.timestamp() == 1_700_000_000.123
    assert (second.index, second.error_code, second.base_offset) == (4, ErrorCode.not_leader_or_follower, -1)
    if version >= 5:
        assert (first.log_start_offset, second.log_start_offset) == (5, -1)
    if version >= 8:
        assert (first.error_message, second.error_message) == (None, "ask broker 2")
        assert first.record_errors == ()
        assert [(e.batch_index, e.batch_index_error_message) for e in second.record_errors] == [
            (7, "no key"),
            (9, "no key"),
        ]
    if version >= 10:
        assert (second.current_leader.leader_id, second.current_leader.leader_epoch) == (2, 9)
        (endpoint,) = decode(PRODUCE, version, frame).node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "127.0.0.1", 9093)


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("read_committed", [False, True])
def test_a_fetch_response_is_what_kio_reads(version: int, read_committed: bool) -> None:
    topic = TOPIC_ID if version >= 13 else "flights"
    full = PartitionFetched(0, ErrorCode.none, 100, 90, 10, Content(b"records" * 40), read_committed=read_committed)
    empty: PartitionFetched[Content] = PartitionFetched(1, ErrorCode.none, 7, 7, 0, read_committed=read_committed)
    moved: PartitionFetched[Content] = PartitionFetched(
        2,
        ErrorCode.fenced_leader_epoch,
        diverging_epoch=(3, 55),
        current_leader=CurrentLeader(2, 9),
    )
    header = message_codec(FETCH, version).response_header(7)
    parts = encode_fetch_response(version, header, [(topic, [full, empty, moved])], node_endpoints=[ENDPOINT])
    frame = b"".join(part if isinstance(part, bytes) else part.data for part in parts)
    assert all(part if isinstance(part, bytes) else part.size for part in parts), "no part is empty"

    response = decode(FETCH, version, frame)
    (answered,) = response.responses
    first, second, third = answered.partitions
    assert (answered.topic_id if version >= 13 else answered.topic) == topic
    assert (first.partition_index, first.high_watermark, first.last_stable_offset) == (0, 100, 90)
    assert first.records == b"records" * 40
    assert first.aborted_transactions == (() if read_committed else None)
    assert not second.records
    assert third.error_code == ErrorCode.fenced_leader_epoch
    if version >= 5:
        assert first.log_start_offset == 10
    if version >= 12:
        assert (third.diverging_epoch.epoch, third.diverging_epoch.end_offset) == (3, 55)
        assert (third.current_leader.leader_id, third.current_leader.leader_epoch) == (2, 9)
    if version >= 16:
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "127.0.0.1", 9093)


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_response_tells_of_aborted_transactions(version: int) -> None:
    topic = TOPIC_ID if version >= 13 else "flights"
    aborted = [(number, 10 * number) for number in range(200)]
    partitions = [
        PartitionFetched(
            index,
            ErrorCode.none,
            5000,
            4000,
            10,
            Content(b"records"),
            True,
            preferred_replica=8,
            aborted=aborted[:count],
        )
        for index, count in enumerate((1, 0, 200))
    ]
    header = message_codec(FETCH, version).response_header(7)
    parts = encode_fetch_response(version, header, [(topic, partitions)])
    frame = b"".join(part if isinstance(part, bytes) else part.data for part in parts)

    (answered,) = decode(FETCH, version, frame).responses
    for partition, count in zip(answered.partitions, (1, 0, 200), strict=True):
        found = [(entry.producer_id, entry.first_offset) for entry in partition.aborted_transactions]
        assert found == aborted[:count]
        assert (partition.last_stable_offset, partition.records) == (4000, b"records")
        if version >= 11:
            assert partition.preferred_read_replica == 8


@pytest.mark.parametrize("version", range(7, 19))
def test_a_fetch_response_names_its_session_and_the_preferred_replica(version: int) -> None:
    named = [TOPIC_ID, UUID(int=7)] if version >= 13 else ["flights", "trains"]
    topics = [
        (topic, [PartitionFetched[Content](index, ErrorCode.none, preferred_replica=index)])
        for index, topic in enumerate([*named, named[0]])
    ]
    header = message_codec(FETCH, version).response_header(7)
    (frame,) = encode_fetch_response(version, header, topics, session_id=2**31 - 1)

    assert isinstance(frame, bytes)
    response = decode(FETCH, version, frame)
    assert response.session_id == 2**31 - 1
    assert [topic.topic_id if version >= 13 else topic.topic for topic in response.responses] == [*named, named[0]]
    preferred = [topic.partitions[0].preferred_read_replica for topic in response.responses] if version >= 11 else []
    assert preferred == ([0, 1, 2] if version >= 11 else [])


@pytest.mark.parametrize("version", range(4, 19))
def test_no_part_is_empty_where_the_records_come_last(version: int) -> None:
    fetched = PartitionFetched(0, ErrorCode.none, 1, 1, 0, Content(b"records"))
    header = message_codec(FETCH, version).response_header(7)
    parts = encode_fetch_response(version, header, [(TOPIC_ID if version >= 13 else "flights", [fetched])])

    assert all(part if isinstance(part, bytes) else part.size for part in parts)


def test_a_fetch_response_without_topics_is_well_formed() -> None:
    for version in range(7, 19):
        header = message_codec(FETCH, version).response_header(7)
        (frame,) = encode_fetch_response(version, header, [], error_code=ErrorCode.fetch_session_id_not_found)
        assert isinstance(frame, bytes)
        assert decode(FETCH, version, frame).error_code == ErrorCode.fetch_session_id_not_found
