"""Requests that are written, and responses that are read, on behalf of a client."""

import random

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.index import api_key_map, schema_name_map

from ottla_core.errors import InvalidRequest
from ottla_core.wire.messages import message_codec, read_request_header
from tests.support.clients.raw_client import encode_request
from tests.support.messages.random_messages import random_message

VERSIONS = [
    (key, version) for key in (9, 15, 16, 18, 42, 69) for version in sorted(schema_name_map[api_key_map[key]])
]


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_a_request_is_written_as_a_client_writes_it(api_key: int, version: int) -> None:
    source = random.Random(f"{api_key} {version}")
    for client_id in ("client é", "", None):
        request = random_message(source, load_request_schema(api_key, version))
        frame = encode_request(request, 7, client_id=client_id)
        codec, header = message_codec(api_key, version), read_request_header(memoryview(frame))

        assert codec.encode_request(header, request) == frame


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_a_response_is_read_as_it_was_written(api_key: int, version: int) -> None:
    source = random.Random(f"{api_key} {version}")
    codec = message_codec(api_key, version)
    for _ in range(10):
        response = random_message(source, load_response_schema(api_key, version))

        assert codec.read_response(codec.encode_response(7, response)) == response


@pytest.mark.parametrize("tagged_fields", [b"", b"\x80", b"\1\0"])
def test_a_request_that_ends_within_its_header_is_refused(tagged_fields: bytes) -> None:
    produce, version = 0, 9
    header = bytes((0, produce, 0, version, 0, 0, 0, 7, 0xFF, 0xFF))
    frame = memoryview(header + tagged_fields)

    with pytest.raises(InvalidRequest, match="header"):
        message_codec(produce, version).body_offset(frame, read_request_header(frame))


def test_bytes_that_are_no_response_are_refused() -> None:
    assert message_codec(12, 4).response_type is HeartbeatResponse
    with pytest.raises(InvalidRequest, match="HeartbeatResponse v4"):
        message_codec(12, 4).read_response(b"\0\0\0\7\0\0\0\1\0\0\0")
