"""Lengths that a message cannot hold are refused before anything is allocated for them."""

import random
import subprocess
import sys

import pytest
from kio.index import load_request_schema

from ottla_broker.dispatch import APIS
from ottla_core.errors import InvalidRequest
from ottla_core.wire.bounds import ITEMS_MAX, bounds_checker, skip_tagged_fields
from ottla_core.wire.messages import RequestHeader, message_codec
from tests.support.clients.raw_client import encode_request
from tests.support.messages.random_messages import random_message

COMPACT_HUGE = "ffffffff0f"
HUGE = "7fffffff"
BOMBS = [
    (3, 12, COMPACT_HUGE + "00" * 20),
    (3, 1, HUGE + "00" * 20),
    (0, 9, "00" + "0001" + "00000001" + COMPACT_HUGE + "00" * 40),
    (1, 12, "ffffffff" + "00000000" * 3 + "00" + "00000000" * 2 + COMPACT_HUGE + "00" * 40),
    (35, 4, "02" + "0261" + COMPACT_HUGE + "00" * 40),
    (19, 5, "02" + "0261" + "00000001" + "0001" + "02" + "00000000" + COMPACT_HUGE + "00" * 40),
]


@pytest.mark.parametrize(("api_key", "version", "body"), BOMBS)
def test_an_array_that_announces_more_than_follows_is_refused(api_key: int, version: int, body: str) -> None:
    header = RequestHeader(api_key, version, 0, None, 0)
    frame = memoryview(bytes.fromhex(("00" if message_codec(api_key, version).flexible else "") + body)).toreadonly()

    with pytest.raises(InvalidRequest):
        message_codec(api_key, version).read_request(frame, header)


def test_kio_alone_would_end_the_process() -> None:
    """The reason for the check; when this fails, kio has been mended and the check may go."""
    program = (
        "from kio.schema.metadata.v12.request import MetadataRequest as M\n"
        "from kio.serial import entity_reader\n"
        f"entity_reader(M)(bytes.fromhex('{COMPACT_HUGE}' + '00' * 20), 0)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode < 0


def test_an_array_of_very_many_tiny_items_is_refused() -> None:
    frame = memoryview((ITEMS_MAX + 1).to_bytes(4, "big") + bytes(2 * ITEMS_MAX + 10)).toreadonly()

    with pytest.raises(InvalidRequest, match="items"):
        bounds_checker(load_request_schema(3, 1))(frame, 0, ITEMS_MAX)


def test_very_many_items_are_refused_also_when_many_arrays_share_them() -> None:
    topics = 2 * ITEMS_MAX // 1000
    topic = b"\0\1t" + (999).to_bytes(4, "big") + bytes(999 * 12)
    frame = memoryview(topics.to_bytes(4, "big") + topics * topic).toreadonly()
    check = bounds_checker(load_request_schema(2, 1))

    with pytest.raises(InvalidRequest, match="items"):
        check(memoryview(b"\xff\xff\xff\xff" + frame).toreadonly(), 0, ITEMS_MAX)


def test_very_many_tagged_fields_are_refused() -> None:
    header = b"\xff\xff\x03" + bytes(200_000)

    with pytest.raises(InvalidRequest, match="tagged fields"):
        skip_tagged_fields(memoryview(header), 0)


@pytest.mark.parametrize("api_key", sorted(APIS))
def test_every_honest_request_passes(api_key: int) -> None:
    api = APIS[api_key]
    source = random.Random(api_key)
    for version in range(api.oldest, api.newest + 1):
        schema = load_request_schema(api_key, version)
        codec = message_codec(api_key, version)
        for _ in range(20):
            message = random_message(source, schema)
            frame = memoryview(encode_request(message, 1, client_id=None)).toreadonly()
            assert codec.read_request(frame, RequestHeader(api_key, version, 1, None, 10)) is not None
