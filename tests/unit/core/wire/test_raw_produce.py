"""The hand-written side of a producer agrees with the broker's reader and writer, in every version."""

import random
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.errors import InvalidResponse
from ottla_core.wire.leader_hint import CurrentLeader, NodeEndpoint
from ottla_core.wire.messages import message_codec
from ottla_core.wire.produce_request import read_produce_request
from ottla_core.wire.produce_response import PartitionProduced, encode_produce_response
from ottla_core.wire.raw_produce import (
    NEWEST_VERSION,
    OLDEST_VERSION,
    PRODUCE_KEY,
    ProduceOutcome,
    TopicKey,
    produce_request_body,
    read_accepted_in_order,
    read_produce_response,
)

TOPIC_ID, OTHER_ID = UUID(int=7), UUID(int=8)
VERSIONS = pytest.mark.parametrize("version", range(OLDEST_VERSION, NEWEST_VERSION + 1))


def keys(version: int) -> tuple[TopicKey, TopicKey]:
    return (TOPIC_ID, OTHER_ID) if version >= 13 else ("flights", "other")


@VERSIONS
def test_a_request_is_what_a_broker_reads(version: int):
    first, second = keys(version)
    batches = {first: [(3, memoryview(b"abcd")), (4, b"x" * 200)], second: [(0, b"y" * 20_000)]}
    frame = b"".join(produce_request_body(version, 5000, batches))
    request = read_produce_request(memoryview(frame), 0, version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, -1, 5000)
    found = {
        (topic.topic, each.partition): bytes(each.records or b"")
        for topic in request.topics
        for each in topic.partitions
    }
    assert found == {(first, 3): b"abcd", (first, 4): b"x" * 200, (second, 0): b"y" * 20_000}


def response_frame(version: int) -> memoryview:
    first, second = keys(version)
    accepted = PartitionProduced(3, ErrorCode.none, base_offset=42, log_append_time_ms=77)
    refused = PartitionProduced(
        4,
        ErrorCode.not_leader_or_follower,
        error_message="ask broker 2",
        current_leader=CurrentLeader(2, 9),
        record_errors=[(7, "no key"), (9, "no key")],
    )
    unexplained = PartitionProduced(5, ErrorCode.invalid_record, record_errors=[(7, "no key")])
    header = message_codec(PRODUCE_KEY, version).response_header(7)
    endpoint = NodeEndpoint(2, "127.0.0.1", 9093, None)
    topics = [(first, [accepted, refused]), (second, [unexplained])]
    return memoryview(encode_produce_response(version, header, topics, [endpoint]))[4:]


@VERSIONS
def test_a_response_is_read_as_a_broker_wrote_it(version: int):
    first, second = keys(version)
    message, reason = ("ask broker 2", "no key") if version >= 8 else (None, None)
    assert read_produce_response(response_frame(version), version) == [
        ProduceOutcome(first, 3, ErrorCode.none, 42, 77, None),
        ProduceOutcome(first, 4, ErrorCode.not_leader_or_follower, -1, -1, message),
        ProduceOutcome(second, 5, ErrorCode.invalid_record, -1, -1, reason),
    ]


@VERSIONS
def test_a_response_about_one_batch_is_read_like_any_other(version: int):
    topic, _ = keys(version)
    header = message_codec(PRODUCE_KEY, version).response_header(7)
    for produced in (
        PartitionProduced(3, ErrorCode.none, base_offset=2**40, log_append_time_ms=-1),
        PartitionProduced(3, ErrorCode.not_enough_replicas),
    ):
        frame = memoryview(encode_produce_response(version, header, [(topic, [produced])]))[4:]
        expected = ProduceOutcome(topic, 3, produced.error_code, produced.base_offset, -1, None)
        assert read_produce_response(frame, version) == [expected]


def accepted_frame(topic: UUID, *produced: PartitionProduced) -> memoryview:
    header = message_codec(PRODUCE_KEY, NEWEST_VERSION).response_header(7)
    return memoryview(encode_produce_response(NEWEST_VERSION, header, [(topic, produced)]))[4:]


@pytest.mark.parametrize("size", [0, 1, 126, 127, (1 << 14) - 2, (1 << 14) - 1, (1 << 21) - 2, (1 << 21) - 1])
def test_sizes_of_batches_are_written_in_as_many_bytes_as_they_take(size: int):
    frame = b"".join(produce_request_body(NEWEST_VERSION, 5000, {TOPIC_ID: [(3, bytes(size))]}))
    (topic,) = read_produce_request(memoryview(frame), 0, NEWEST_VERSION).topics
    assert [len(each.records or b"") for each in topic.partitions] == [size]


def test_a_response_that_accepts_everything_in_order_is_read_in_one_pass():
    produced = [PartitionProduced(n, ErrorCode.none, base_offset=40 + n, log_append_time_ms=-1) for n in (3, 1, 2)]
    asked = [(n, b"") for n in (3, 1, 2)]
    frame = accepted_frame(TOPIC_ID, *produced)
    assert read_accepted_in_order(frame, TOPIC_ID, asked) == ((43, 41, 42), -1)
    assert read_accepted_in_order(frame, OTHER_ID, asked) is None
    assert read_accepted_in_order(frame, TOPIC_ID, asked[::-1]) is None
    assert read_accepted_in_order(frame, TOPIC_ID, asked[1:]) is None
    assert read_accepted_in_order(frame[:-1], TOPIC_ID, asked) is None
    assert read_accepted_in_order(accepted_frame(TOPIC_ID, *produced[1:]), TOPIC_ID, asked) is None
    refused = PartitionProduced(1, ErrorCode.not_enough_replicas)
    assert read_accepted_in_order(accepted_frame(TOPIC_ID, produced[0], refused), TOPIC_ID, asked[:2]) is None


@VERSIONS
def test_broken_responses_are_refused_as_such(version: int):
    whole = response_frame(version)
    chosen = random.Random(version)
    for _ in range(3000):
        broken = bytearray(whole[: chosen.randrange(4, len(whole) + 1)])
        for _ in range(chosen.randrange(0, 4)):
            broken[chosen.randrange(len(broken))] = chosen.randrange(256)
        try:
            read_produce_response(memoryview(broken), version)
        except InvalidResponse:
            continue


@VERSIONS
def test_a_request_names_the_transactional_id_of_its_batches(version: int):
    topic, _ = keys(version)
    body = produce_request_body(version, 5000, {topic: [(3, b"batch")]}, transactional_id="mirror")
    assert read_produce_request(memoryview(b"".join(body)), 0, version).transactional_id == "mirror"
