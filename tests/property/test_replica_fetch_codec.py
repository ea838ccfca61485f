"""A follower's hand-written messages are those of the protocol, as kio knows it, and garbage gives typed errors."""

import io
import struct
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17 import request as fetch_request
from kio.schema.fetch.v17 import response as fetch_response
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records, i32, i32Timedelta, i64

from ottla_core.errors import InvalidResponse
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.wire.messages import message_codec, read_request_header
from ottla_core.wire.record_batch import iterate_batches
from ottla_core.wire.records import Record, encode_batch
from ottla_core.wire.replica_fetch_request import (
    FETCH_KEY,
    FETCH_VERSION,
    OLDEST_VERSION,
    FetchLimits,
    PartitionFetch,
    ReplicaFetchRequestWriter,
)
from ottla_core.wire.replica_fetch_response import PIECE_BYTES_MIN, PartitionFetched, ReplicaFetchResponseReader

int32s = st.integers(-(2**31), 2**31 - 1).map(i32)
broker_ids = int32s.map(BrokerId)
int64s = st.integers(-(2**63), 2**63 - 1).map(i64)
topic_ids = st.uuids().filter(lambda topic_id: topic_id.int != 0)  # kio reads that one as None
asked_partitions = st.builds(PartitionFetch, int32s, int32s, int64s, int32s, int64s, int32s)
NO_DIVERGENCE = fetch_response.EpochEndOffset()
asked_topics = st.dictionaries(topic_ids, st.lists(asked_partitions, max_size=3), max_size=3)
forgotten_topics = st.dictionaries(topic_ids, st.lists(int32s, max_size=3), max_size=3)


@given(asked_topics, forgotten_topics, int32s, st.tuples(int32s, int32s), int64s)
def test_a_follower_s_request_is_what_kio_reads(
    asked: dict[UUID, list[PartitionFetch]],
    forgotten: dict[UUID, list[int]],
    correlation_id: int,
    session: tuple[int, int],
    replica_epoch: int,
) -> None:
    writer = ReplicaFetchRequestWriter("broker-3-fetcher-0", 3, FetchLimits(500, 1, 10_000_000))
    frame = writer.write(correlation_id, replica_epoch, session, asked, forgotten)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    view = memoryview(frame)[4:]
    header = read_request_header(view)
    assert (header.api_key, header.api_version) == (FETCH_KEY, FETCH_VERSION)
    assert (header.correlation_id, header.client_id) == (correlation_id, "broker-3-fetcher-0")
    codec = message_codec(FETCH_KEY, FETCH_VERSION)
    message = codec.read_request(view, header)
    offset = codec.body_offset(view, header)
    assert offset + entity_reader(codec.request_type)(view, offset)[1] == len(view)
    assert isinstance(message, fetch_request.FetchRequest)
    assert (message.session_id, message.session_epoch) == session
    assert (message.replica_state.replica_id, message.replica_state.replica_epoch) == (3, replica_epoch)
    assert (message.max_wait, message.min_bytes, message.max_bytes) == (timedelta(seconds=0.5), 1, 10_000_000)
    assert message.isolation_level == 0
    assert message.rack_id == ""
    found = {
        topic.topic_id: [
            PartitionFetch(
                partition.partition,
                partition.current_leader_epoch,
                partition.fetch_offset,
                partition.last_fetched_epoch,
                partition.log_start_offset,
                partition.partition_max_bytes,
            )
            for partition in topic.partitions
        ]
        for topic in message.topics
    }
    assert found == asked
    assert {topic.topic_id: list(topic.partitions) for topic in message.forgotten_topics_data} == forgotten


@given(asked_topics, forgotten_topics, st.tuples(int32s, int32s), st.integers(OLDEST_VERSION, FETCH_VERSION))
def test_a_consumer_s_request_of_any_version_is_what_kio_reads(
    asked: dict[UUID, list[PartitionFetch]], forgotten: dict[UUID, list[int]], session: tuple[int, int], version: int
) -> None:
    writer = ReplicaFetchRequestWriter("link", -1, FetchLimits(500, 1, 10_000_000))
    body = memoryview(bytes(writer.body(-1, session, asked, forgotten, version=version)))
    message, size = entity_reader(message_codec(FETCH_KEY, version).request_type)(body, 0)
    assert size == len(body)
    assert getattr(message, "replica_id", -1) == -1
    assert (message.session_id, message.session_epoch, message.min_bytes) == (*session, 1)
    found = {
        topic.topic_id: [(each.partition, each.fetch_offset, each.last_fetched_epoch) for each in topic.partitions]
        for topic in message.topics
    }
    assert found == {
        topic_id: [(each.partition, each.fetch_offset, each.last_fetched_epoch) for each in partitions]
        for topic_id, partitions in asked.items()
    }
    assert {topic.topic_id: list(topic.partitions) for topic in message.forgotten_topics_data} == forgotten


@st.composite
def partitions(draw: st.DrawFn) -> fetch_response.PartitionData:
    transactions = st.builds(fetch_response.AbortedTransaction, producer_id=int64s, first_offset=int64s)
    diverging_epochs = st.builds(fetch_response.EpochEndOffset, epoch=int32s, end_offset=int64s)
    return fetch_response.PartitionData(
        partition_index=draw(int32s),
        error_code=draw(st.sampled_from(ErrorCode)),
        high_watermark=draw(int64s),
        last_stable_offset=draw(int64s),
        log_start_offset=draw(int64s),
        aborted_transactions=draw(st.none() | st.lists(transactions, max_size=3).map(tuple)),
        preferred_read_replica=draw(broker_ids),
        records=draw(st.none() | st.binary(max_size=300).map(Records)),
        current_leader=draw(st.builds(fetch_response.LeaderIdAndEpoch, leader_id=broker_ids, leader_epoch=int32s)),
        diverging_epoch=draw(st.just(NO_DIVERGENCE) | diverging_epochs),
    )


@st.composite
def responses(draw: st.DrawFn) -> fetch_response.FetchResponse:
    topics = st.builds(
        fetch_response.FetchableTopicResponse,
        topic_id=topic_ids,
        partitions=st.lists(partitions(), max_size=3).map(tuple),
    )
    endpoints = st.builds(
        fetch_response.NodeEndpoint, node_id=broker_ids, host=st.text(max_size=5), port=int32s, rack=st.none()
    )
    return fetch_response.FetchResponse(
        throttle_time=i32Timedelta.parse(timedelta(milliseconds=draw(st.integers(0, 10_000)))),
        error_code=draw(st.sampled_from(ErrorCode)),
        session_id=draw(int32s),
        responses=draw(st.lists(topics, max_size=3).map(tuple)),
        node_endpoints=draw(st.lists(endpoints, max_size=2).map(tuple)),
    )


def frame_of(response: fetch_response.FetchResponse, correlation_id: int = 7) -> bytes:
    buffer = io.BytesIO()
    buffer.write(struct.pack(">ib", correlation_id, 0))
    entity_writer(fetch_response.FetchResponse)(buffer, response)
    return buffer.getvalue()


def read_in_pieces(
    frame: bytes, ends: list[int], *, piece_bytes_min: int = PIECE_BYTES_MIN
) -> tuple[ReplicaFetchResponseReader, list[PartitionFetched]]:
    """Reads a frame of which the bytes up to each of some positions are there at a time, and at last all of it."""
    buffer = memoryview(bytearray(len(frame)))
    reader = ReplicaFetchResponseReader(buffer, 7, piece_bytes_min=piece_bytes_min)
    found = []
    for end in [*sorted(min(end, len(frame)) for end in ends), len(frame)]:
        buffer[:end] = frame[:end]
        while (fetched := reader.read_next(end)) is not None:
            found.append(fetched)
    return reader, found


@given(responses(), st.lists(st.integers(0, 2000), max_size=6))
def test_a_response_is_read_as_kio_wrote_it_however_it_arrives(
    response: fetch_response.FetchResponse, ends: list[int]
) -> None:
    reader, found = read_in_pieces(frame_of(response), ends)
    assert reader.is_complete
    assert reader.head is not None
    assert (reader.head.error_code, reader.head.session_id) == (response.error_code, response.session_id)
    expected = [
        PartitionFetched(
            topic.topic_id or ZERO_UUID,
            partition.partition_index,
            partition.error_code,
            partition.high_watermark,
            partition.log_start_offset,
            memoryview(partition.records or b""),
            None
            if partition.diverging_epoch == NO_DIVERGENCE
            else (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset),
        )
        for topic in response.responses
        for partition in topic.partitions
    ]
    assert found == expected


@given(
    st.lists(st.lists(st.integers(0, 80), min_size=1, max_size=8), min_size=1, max_size=3),
    st.lists(st.integers(0, 3000), max_size=20),
    st.integers(0, 300),
)
def test_many_records_come_in_pieces_of_whole_batches(
    sizes: list[list[int]], ends: list[int], piece_bytes_min: int
) -> None:
    made = [
        [encode_batch([Record(number, 0, None, bytes(size), ())]) for number, size in enumerate(batches)]
        for batches in sizes
    ]
    data = tuple(
        fetch_response.PartitionData(
            partition_index=i32(index),
            error_code=ErrorCode.none,
            high_watermark=i64(7),
            aborted_transactions=None,
            records=Records(b"".join(batches)),
        )
        for index, batches in enumerate(made)
    )
    topic = fetch_response.FetchableTopicResponse(topic_id=UUID(int=9), partitions=data)
    response = fetch_response.FetchResponse(
        throttle_time=i32Timedelta.parse(timedelta()),
        error_code=ErrorCode.none,
        session_id=i32(1),
        responses=(topic,),
    )
    reader, found = read_in_pieces(frame_of(response), ends, piece_bytes_min=piece_bytes_min)
    assert reader.is_complete
    for index, batches in enumerate(made):
        pieces = [fetched for fetched in found if fetched.partition == index]
        assert [fetched.is_last for fetched in pieces] == [False] * (len(pieces) - 1) + [True]
        assert [bytes(batch) for piece in pieces for _, batch in iterate_batches(piece.records)] == batches


def read_all(frame: bytes) -> list[PartitionFetched]:
    return read_in_pieces(frame, [])[1]


@given(st.binary(max_size=200))
def test_garbage_gives_a_typed_error_or_an_empty_response(frame: bytes) -> None:
    with suppress(InvalidResponse):
        read_all(frame)


@given(responses(), st.data())
def test_a_damaged_response_gives_a_typed_error_or_another_response(
    response: fetch_response.FetchResponse, data: st.DataObject
) -> None:
    damaged = bytearray(frame_of(response))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(damaged)))
    with suppress(InvalidResponse):
        read_all(bytes(damaged[:end]))
