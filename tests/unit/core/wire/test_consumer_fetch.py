"""The hand-written side of a consumer agrees with kio's general one, in every version."""

import random
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32, i64

from ottla_core.errors import InvalidResponse
from ottla_core.wire.consumer_fetch import (
    FETCH_KEY,
    NEWEST_VERSION,
    OLDEST_VERSION,
    AbortedTransaction,
    FetchAsked,
    IsolationLevel,
    TopicKey,
    fetch_request_body,
    read_fetch_response,
)
from ottla_core.wire.conversion import default_values, item_type, message_of
from ottla_core.wire.messages import message_codec, read_request_header
from ottla_core.wire.replica_fetch_request import FetchLimits

TOPIC_ID, OTHER_ID = UUID(int=7), UUID(int=8)
LIMITS = FetchLimits(wait_ms_max=500, bytes_min=1, bytes_max=1 << 20)
ASKED = FetchAsked(partition=3, current_leader_epoch=5, fetch_offset=2**40, last_fetched_epoch=4, max_bytes=1000)
VERSIONS = pytest.mark.parametrize("version", range(OLDEST_VERSION, NEWEST_VERSION + 1))


def key(version: int, name: str) -> TopicKey:
    return {"flights": TOPIC_ID, "other": OTHER_ID}[name] if version >= 13 else name


def frame_of(version: int, body: bytes) -> memoryview:
    header = FETCH_KEY.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\0\1c"
    return memoryview(header + (b"\0" if version >= 12 else b"") + body)


@VERSIONS
def test_a_request_is_what_kio_reads(version: int):
    body = fetch_request_body(
        version,
        LIMITS,
        isolation_level=IsolationLevel.READ_COMMITTED,
        session=(12, 34),
        asked={key(version, "flights"): [ASKED, ASKED._replace(partition=4)]},
        forgotten={key(version, "other"): [1, 2]},
    )
    frame = frame_of(version, body)
    request: Any = message_codec(FETCH_KEY, version).read_request(frame, read_request_header(frame))
    assert (request.isolation_level, request.max_bytes, request.min_bytes) == (1, 1 << 20, 1)
    assert request.max_wait.total_seconds() == 0.5
    (topic,) = request.topics
    assert (topic.topic_id if version >= 13 else topic.topic) == key(version, "flights")
    first, second = topic.partitions
    assert (first.partition, first.fetch_offset, first.partition_max_bytes) == (3, 2**40, 1000)
    assert second.partition == 4
    if version >= 9:
        assert first.current_leader_epoch == 5
    if version >= 12:
        assert first.last_fetched_epoch == 4
    if version >= 7:
        assert (request.session_id, request.session_epoch) == (12, 34)
        assert request.forgotten_topics_data[0].partitions == (1, 2)
    if version < 15:
        assert request.replica_id == -1
    else:
        assert request.replica_state.replica_id == -1


def response_frame(version: int, records: bytes | None = b"abc") -> memoryview:
    codec = message_codec(FETCH_KEY, version)
    response_type = load_response_schema(FETCH_KEY, version)
    topic_type = item_type(response_type, "responses")
    partition_type = item_type(topic_type, "partitions")
    aborted_type = item_type(partition_type, "aborted_transactions")
    aborted = (message_of(aborted_type, producer_id=i64(9), first_offset=i64(40)),)
    values: dict[str, Any] = {
        "partition_index": i32(3),
        "error_code": ErrorCode.none,
        "high_watermark": i64(50),
        "last_stable_offset": i64(45),
        "log_start_offset": i64(2),
        "records": records,
        "aborted_transactions": aborted,
    }
    first = message_of(partition_type, **values)
    if version >= 12:
        diverging_type = type(default_values(partition_type)["diverging_epoch"])
        first = replace(first, diverging_epoch=message_of(diverging_type, epoch=i32(6), end_offset=i64(44)))  # type: ignore[type-var, call-arg]
    second = message_of(
        partition_type,
        partition_index=i32(4),
        error_code=ErrorCode.offset_out_of_range,
        high_watermark=i64(-1),
        last_stable_offset=i64(-1),
        log_start_offset=i64(-1),
    )
    named = {"topic": "flights", "topic_id": TOPIC_ID}
    topics = (message_of(topic_type, **named, partitions=(first, second)),)
    response = message_of(response_type, responses=topics, session_id=i32(12), error_code=ErrorCode.none)
    return memoryview(codec.encode_response(7, response))[4:]


@VERSIONS
def test_a_response_is_read_as_kio_wrote_it(version: int):
    frame = response_frame(version)
    answer = read_fetch_response(frame, version)
    assert answer.error_code is ErrorCode.none
    assert answer.session_id == (12 if version >= 7 else 0)
    first, second = answer.partitions
    assert (first.topic, first.partition, first.error_code) == (key(version, "flights"), 3, ErrorCode.none)
    assert (first.high_watermark, first.last_stable_offset) == (50, 45)
    assert first.log_start_offset == (2 if version >= 5 else -1)
    assert first.aborted == (AbortedTransaction(9, 40),)
    assert bytes(first.records) == b"abc"
    assert first.records.obj is frame.obj, "the records were copied"
    assert first.diverging_epoch == ((6, 44) if version >= 12 else None)
    assert (second.partition, second.error_code) == (4, ErrorCode.offset_out_of_range)
    assert not second.records
    assert second.diverging_epoch is None


@VERSIONS
def test_broken_responses_are_refused_as_such(version: int):
    whole = response_frame(version, bytes(300))
    chosen = random.Random(version)
    for size in range(4, len(whole)):
        with pytest.raises(InvalidResponse):
            read_fetch_response(whole[:size], version)
    for _ in range(2000):
        broken = bytearray(whole)
        for _ in range(chosen.randrange(1, 4)):
            broken[chosen.randrange(4, len(broken))] = chosen.randrange(256)
        try:
            read_fetch_response(memoryview(broken), version)
        except InvalidResponse:
            continue


@VERSIONS
def test_an_unknown_error_is_an_unknown_server_error(version: int):
    frame = bytearray(response_frame(version))
    at = frame.index(int(ErrorCode.offset_out_of_range).to_bytes(2, "big") + b"\xff" * 16)
    frame[at : at + 2] = i16(9999).to_bytes(2, "big")
    assert read_fetch_response(memoryview(frame), version).partitions[1].error_code is ErrorCode.unknown_server_error
