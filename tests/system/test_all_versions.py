"""Every advertised API in every advertised version answers a well-formed response, decoded to its last byte by kio.

The requests are kio's own dataclasses, filled in by field name and type (`filled_request.py`), so that a version
added to the broker is tested without a change here.
"""

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map

from ottla_broker import dispatch
from ottla_core.wire.messages import newest_version
from tests.conftest import TopicFactory
from tests.support.clients.raw_client import Closed, RawClient, request_type
from tests.support.clients.raw_requests import metadata_request, produce_request
from tests.support.messages.filled_request import filled_request
from tests.support.messages.record_batches import batch_of

# Advertised from version 0 for the sake of old librdkafka, and refused below 3, as in Kafka.
PRODUCE, PRODUCE_VERSION_SERVED_MIN = 0, 3
APIS = {key: request_type(key, newest_version(key)).__module__.split(".")[2] for key in sorted(dispatch.APIS)}
"""The name that kio gives each API of Kafka that brokers serve."""


def advertised(client: RawClient) -> dict[int, range]:
    answer = client.ask(request_type(18, 0)())
    assert answer.error_code is ErrorCode.none
    return {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}


def test_every_api_that_is_served_is_advertised(bootstrap: str) -> None:
    with RawClient.to(bootstrap) as client:
        assert set(APIS) <= set(advertised(client))


@pytest.mark.parametrize("api_key", APIS, ids=APIS.values())
def test_every_advertised_version_answers(bootstrap: str, new_topic: TopicFactory, api_key: int) -> None:
    topic = new_topic(partitions=2)
    with RawClient.to(bootstrap) as client:
        client.ask(produce_request(topic, batch_of([b"v"], key=b"k").encode()))
        topic_id = client.ask(metadata_request([topic])).topics[0].topic_id
        for version in advertised(client)[api_key]:
            if version not in schema_name_map[APIS[api_key]]:
                continue  # newer than kio, or refused below
            request = filled_request(request_type(api_key, version), topic=topic, topic_id=topic_id)
            client.ask(request)


@pytest.mark.parametrize("version", range(PRODUCE_VERSION_SERVED_MIN))
def test_produce_below_version_3_is_advertised_and_refused(bootstrap: str, version: int) -> None:
    with RawClient.to(bootstrap) as client:
        assert version in advertised(client)[PRODUCE]
        client.send_frame(PRODUCE.to_bytes(2) + version.to_bytes(2) + bytes(4) + b"\xff\xff" + bytes(10))
        with pytest.raises(Closed):
            client.read_frame()


def test_versions_next_to_the_advertised_ones_close_the_connection(bootstrap: str) -> None:
    with RawClient.to(bootstrap) as client:
        ranges = advertised(client)
    for api_key in set(APIS) - {18}:
        for version in (ranges[api_key].start - 1, ranges[api_key].stop):
            with RawClient.to(bootstrap) as client:
                client.send_frame(api_key.to_bytes(2) + version.to_bytes(2, signed=True) + bytes(4) + b"\xff\xff\0")
                assert client.is_closed(), f"{APIS[api_key]} version {version}"
