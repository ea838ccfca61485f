"""Messages of any version can be converted to and from the newest."""

from datetime import timedelta

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.create_topics.v2.request import CreateTopicsRequest as CreateTopicsRequestV2
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.metadata.v0.response import MetadataResponse as MetadataResponseV0
from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponseBroker

from ottla_core.wire import conversion
from ottla_core.wire.conversion import convert

SERVED = {
    *(0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23),
    *(32, 33, 35, 37, 42, 44, 47, 60, 61, 68, 69, 74, 75),
}


@pytest.mark.parametrize("api_key", sorted(SERVED))
def test_every_version_of_a_served_api_has_a_way_to_and_from_the_newest(api_key: int) -> None:
    versions = schema_name_map[api_key_map[api_key]]
    newest = max(versions)
    for version in versions:
        conversion._converter(load_request_schema(api_key, version), load_request_schema(api_key, newest))
        conversion._converter(load_response_schema(api_key, newest), load_response_schema(api_key, version))


def test_a_field_that_the_older_version_lacks_takes_the_schemas_default() -> None:
    old = CreateTopicsRequestV2(topics=(), timeout=timedelta(seconds=1), validate_only=True)

    new = convert(old, CreateTopicsRequest)

    assert (new.topics, new.timeout, new.validate_only) == ((), timedelta(seconds=1), True)


def test_a_field_that_the_older_version_lacks_is_dropped_also_inside_arrays() -> None:
    new = MetadataResponse(
        throttle_time=timedelta(0),
        brokers=(MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092, rack="a"),),
        cluster_id="c",
        controller_id=1,
        topics=(),
        error_code=ErrorCode.none,
    )

    old = convert(new, MetadataResponseV0)

    assert [(b.node_id, b.host, b.port) for b in old.brokers] == [(1, "127.0.0.1", 9092)]
    assert not hasattr(old, "cluster_id")


def test_a_message_of_the_wanted_version_is_returned_as_it_is() -> None:
    message = CreateTopicsRequest(topics=(), timeout=timedelta(0), validate_only=False)

    assert convert(message, CreateTopicsRequest) is message
