"""The id of its group is read from every request that begins with one."""

import pytest
from kio.index import load_request_schema

from ottla_core.errors import InvalidRequest
from ottla_core.wire import group_responses as api
from ottla_core.wire.conversion import message_of
from ottla_core.wire.group_id import read_group_id
from ottla_core.wire.messages import RequestHeader, message_codec, newest_version, oldest_version, read_request_header

APIS = (api.HEARTBEAT, api.OFFSET_COMMIT, api.CONSUMER_GROUP_HEARTBEAT)
CASES = [(key, version) for key in APIS for version in range(oldest_version(key), newest_version(key) + 1)]


@pytest.mark.parametrize(("key", "version"), CASES)
@pytest.mark.parametrize("group_id", ["", "g", "grüße", "g" * 300])
def test_every_version_begins_with_the_group_id(key: int, version: int, group_id: str) -> None:
    codec = message_codec(key, version)
    request = message_of(load_request_schema(key, version), group_id=group_id)
    frame = memoryview(codec.encode_request(RequestHeader(key, version, 1, "client", 0), request))
    offset = codec.body_offset(frame, read_request_header(frame))
    assert read_group_id(frame, offset, flexible=codec.flexible) == group_id


@pytest.mark.parametrize(
    ("data", "flexible"),
    [
        (b"", False),
        (b"\0", False),
        (b"\xff\xff", False),
        (b"\x7f\xffabc", False),
        (b"\0\2\xff\xff", False),
        (b"", True),
        (b"\0", True),
        (b"\xff", True),
        (b"\xff\xff\xff\xff\x07abc", True),
        (b"\3\xff\xff", True),
    ],
)
def test_what_is_no_string_is_refused(data: bytes, flexible: bool) -> None:
    with pytest.raises(InvalidRequest):
        read_group_id(memoryview(data), 0, flexible=flexible)
