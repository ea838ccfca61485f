"""Every group request can be refused, in every version, with the error where clients look for it."""

import random
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader

from ottla_core.errors import CodedError
from ottla_core.wire import group_responses
from ottla_core.wire.group_responses import error_response
from ottla_core.wire.messages import message_codec
from tests.support.messages.filled_request import filled_request
from tests.support.messages.random_messages import random_message

REFUSED = CodedError(ErrorCode.not_coordinator, "the shard has another owner")
TOLD = {9: ErrorCode.coordinator_load_in_progress}
"""What is told instead, by API."""
VERSIONS = [
    (api_key, version)
    for api_key in sorted(group_responses._PLACES)
    for version in sorted(schema_name_map[api_key_map[api_key]])
]


def _refused(api_key: int, version: int, message: Any, code: ErrorCode = REFUSED.code) -> Any:
    """The refusal as a client reads it."""
    response = error_response(api_key, version, message, CodedError(code, REFUSED.message))
    codec = message_codec(api_key, version)
    frame = memoryview(codec.encode_response(7, response)).toreadonly()
    start = 4 + len(codec.response_header(7))
    decoded, size = entity_reader(load_response_schema(api_key, version))(frame, start)
    assert start + size == len(frame)
    return decoded


def _codes(message: Any) -> list[ErrorCode]:
    names = ("error_code", "partition_error_code")
    found = [getattr(message, name) for name in names if hasattr(message, name)]
    for field in fields(message):
        value = getattr(message, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if is_dataclass(item):
                found += _codes(item)
    return found


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_every_version_of_every_group_api_carries_its_refusal(api_key: int, version: int) -> None:
    request = filled_request(load_request_schema(api_key, version), topic="flights", topic_id=UUID(int=5))

    codes = _codes(_refused(api_key, version, request))

    assert TOLD.get(api_key, REFUSED.code) in codes


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_any_request_can_be_refused(api_key: int, version: int) -> None:
    source = random.Random(f"{api_key} {version}")
    for _ in range(30):
        _refused(api_key, version, random_message(source, load_request_schema(api_key, version)))


@pytest.mark.parametrize("version", range(2, 11))
def test_a_refused_commit_names_every_partition(version: int) -> None:
    topic_id = UUID(int=5)
    request = filled_request(load_request_schema(8, version), topic="flights", topic_id=topic_id)

    (topic,) = _refused(8, version, request).topics

    assert (topic.name if version < 10 else topic.topic_id) == ("flights" if version < 10 else topic_id)
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(0, ErrorCode.not_coordinator)]


@pytest.mark.parametrize("version", range(1, 8))
def test_the_older_offset_fetch_is_refused_for_each_partition(version: int) -> None:
    request = filled_request(load_request_schema(9, version), topic="flights", topic_id=UUID(int=5))

    (topic,) = _refused(9, version, request).topics

    (partition,) = topic.partitions
    assert (partition.committed_offset, partition.metadata, partition.error_code) == (
        -1, "", TOLD[9],
    )  # fmt: skip


@pytest.mark.parametrize(("api_key", "version", "array"), [(9, 8, "groups"), (15, 6, "groups"), (42, 2, "results")])
def test_an_api_of_several_groups_is_refused_for_each(api_key: int, version: int, array: str) -> None:
    source = random.Random(1)
    schema = load_request_schema(api_key, version)
    request = random_message(source, schema)
    while not any(isinstance(getattr(request, f.name), tuple) and getattr(request, f.name) for f in fields(request)):
        request = random_message(source, schema)
    asked = next(getattr(request, f.name) for f in fields(request) if isinstance(getattr(request, f.name), tuple))

    items = getattr(_refused(api_key, version, request), array)

    assert [item.group_id for item in items] == [getattr(item, "group_id", item) for item in asked]
    assert {item.error_code for item in items} == {TOLD.get(api_key, REFUSED.code)}


def test_the_reason_goes_along_where_there_is_room() -> None:
    request = filled_request(load_request_schema(10, 6), topic="flights", topic_id=UUID(int=5))

    (coordinator,) = _refused(10, 6, request).coordinators

    assert coordinator.error_message == REFUSED.message
    assert (coordinator.node_id, coordinator.host, coordinator.port) == (-1, "", -1)


@pytest.mark.parametrize(
    ("api_key", "code", "told"),
    [
        (12, ErrorCode.coordinator_load_in_progress, ErrorCode.none),
        (14, ErrorCode.coordinator_load_in_progress, ErrorCode.rebalance_in_progress),
        (11, ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_load_in_progress),
        (9, ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress),
        (9, ErrorCode.request_timed_out, ErrorCode.coordinator_load_in_progress),
        (9, ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress),
        (9, ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_load_in_progress),
        (8, ErrorCode.coordinator_not_available, ErrorCode.coordinator_not_available),
    ],
)
def test_clients_are_told_what_makes_them_come_again(api_key: int, code: ErrorCode, told: ErrorCode) -> None:
    newest = max(schema_name_map[api_key_map[api_key]])
    request = filled_request(load_request_schema(api_key, newest), topic="flights", topic_id=UUID(int=5))

    assert _codes(_refused(api_key, newest, request, code)) == [told]
