"""The hand-written reader of ProduceRequest agrees with kio's, and believes no length."""

import random
from datetime import timedelta

import pytest
from kio.index import load_request_schema

from ottla_core.errors import InvalidRequest
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.wire.messages import RequestHeader, message_codec
from ottla_core.wire.produce_request import read_produce_request
from tests.support.clients.raw_client import encode_request
from tests.support.messages.random_messages import random_message

PRODUCE = 0
HEADER_BYTES = 10


def encoded(message: object) -> memoryview:
    return memoryview(encode_request(message, 1, client_id=None)).toreadonly()


def body_offset(frame: memoryview, version: int) -> int:
    return message_codec(PRODUCE, version).body_offset(frame, RequestHeader(PRODUCE, version, 1, None, HEADER_BYTES))


@pytest.mark.parametrize("version", range(3, 14))
def test_it_reads_what_kio_reads(version: int) -> None:
    source = random.Random(version)
    for _ in range(100):
        expected = random_message(source, load_request_schema(PRODUCE, version))
        frame = encoded(expected)

        request = read_produce_request(frame, body_offset(frame, version), version)

        assert request.transactional_id == expected.transactional_id
        assert (request.acks, timedelta(milliseconds=request.timeout_ms)) == (expected.acks, expected.timeout)
        assert len(request.topics) == len(expected.topic_data)
        for topic, wanted in zip(request.topics, expected.topic_data, strict=True):
            assert topic.topic == ((wanted.topic_id or ZERO_UUID) if version >= 13 else wanted.name)
            assert [(p.partition, p.records) for p in topic.partitions] == [
                (p.index, p.records) for p in wanted.partition_data
            ]


@pytest.mark.parametrize("version", range(3, 14))
def test_a_request_cut_short_anywhere_is_refused(version: int) -> None:
    source = random.Random(version)
    frame = encoded(random_message(source, load_request_schema(PRODUCE, version)))
    offset = body_offset(frame, version)
    for end in range(offset, len(frame)):
        with pytest.raises(InvalidRequest):
            read_produce_request(frame[:end], offset, version)


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (9, "00" + "0001" + "00000001" + "ffffffff0f" + "00" * 40),
        (9, "00" + "0001" + "00000001" + "02" + "0261" + "ffffffff0f" + "00" * 40),
        (9, "00" + "0001" + "00000001" + "02" + "0261" + "02" + "00000000" + "ffffffff0f" + "00" * 40),
        (9, "00" + "0001" + "00000001" + "02" + "00" + "01" + "00" * 40),
        (3, "ffff" + "0001" + "00000001" + "7fffffff" + "00" * 40),
        (3, "ffff" + "0001" + "00000001" + "00000001" + "ffff" + "00" * 40),
        (3, "ffff" + "0001" + "00000001" + "00000001" + "0001ff" + "00000000"),
        (9, "8080808080808080" + "00" * 40),
    ],
)
def test_hostile_lengths_and_missing_names_are_refused(version: int, body: str) -> None:
    with pytest.raises(InvalidRequest):
        read_produce_request(memoryview(bytes.fromhex(body)).toreadonly(), 0, version)
