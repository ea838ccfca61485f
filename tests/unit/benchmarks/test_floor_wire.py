"""The floor's hand-packed messages are those of the protocol: kio is the oracle."""

from datetime import timedelta
from typing import Any

import kio.schema.api_versions.v0.response as api_versions
import kio.schema.create_topics.v2.request as create_topics_request
import kio.schema.create_topics.v2.response as create_topics_response
import kio.schema.delete_topics.v1.response as delete_topics_response
import kio.schema.fetch.v12.request as fetch_request
import kio.schema.fetch.v12.response as fetch_response
import kio.schema.init_producer_id.v0.response as init_producer_id
import kio.schema.list_offsets.v1.request as list_offsets_request
import kio.schema.list_offsets.v1.response as list_offsets_response
import kio.schema.metadata.v1.response as metadata
import kio.schema.produce.v9.response as produce_response
from kio.schema.errors import ErrorCode

from benchmarks import floor_wire as wire
from benchmarks.small_requests import one_record_batch, produce_frame
from tests.support.clients.raw_client import decode_response, encode_request


def decoded(body: bytes, response_type: type[Any], *, flexible: bool = False) -> Any:
    correlation_id, response = decode_response(
        wire.write_response(7, body, flexible=flexible)[wire.LENGTH.size :], response_type
    )
    assert correlation_id == 7
    return response


def test_the_raw_clients_produce_frame_is_read_back():
    batch = one_record_batch(b"x" * 100)
    frame = memoryview(produce_frame("flights", batch))[4:]
    request = wire.read_produce(frame)
    assert (request.topic, request.acks, bytes(request.batch)) == (b"flights", 1, batch)


def test_a_produce_response_is_kafkas():
    response = decoded(wire.write_produced(b"flights", 41), produce_response.ProduceResponse, flexible=True)
    partition = response.responses[0].partition_responses[0]
    assert (response.responses[0].name, partition.error_code) == ("flights", ErrorCode.none)
    assert partition.base_offset == 41


def fetch_frame(**overrides: Any) -> memoryview:
    partition = fetch_request.FetchPartition(partition=0, fetch_offset=300, partition_max_bytes=1_000_000)
    topics = (fetch_request.FetchTopic(topic="flights", partitions=(partition,)),)
    fields = {"max_wait": timedelta(milliseconds=500), "min_bytes": 1, "max_bytes": 50_000_000, "topics": topics}
    request = fetch_request.FetchRequest(
        **{**fields, "forgotten_topics_data": (), "session_epoch": -1, "rack_id": "", **overrides}
    )
    return memoryview(encode_request(request, 1))


def test_a_fetch_request_is_read():
    assert wire.read_fetch(fetch_frame()) == wire.FetchRequest(b"flights", 300, 1_000_000, 500)


def test_a_fetch_of_nothing_is_told_apart():
    assert wire.read_fetch(fetch_frame(topics=())) is None
    assert decoded(wire.NOTHING_FETCHED, fetch_response.FetchResponse, flexible=True).responses == ()


def test_a_fetch_response_is_kafkas_around_the_records():
    records = b"r" * 200
    head = wire.write_fetched_head(b"flights", 400, len(records))
    start = wire.write_response(7, head, flexible=True, more_bytes=len(records) + len(wire.FETCHED_TAIL))
    frame = start + records + wire.FETCHED_TAIL
    assert wire.LENGTH.unpack_from(frame)[0] == len(frame) - 4
    _, response = decode_response(frame[4:], fetch_response.FetchResponse)
    partition = response.responses[0].partitions[0]
    assert (partition.high_watermark, bytes(partition.records)) == (400, records)


def test_metadata_names_one_leader():
    response = decoded(wire.write_metadata(b"127.0.0.1", 9092, [b"flights"]), metadata.MetadataResponse)
    assert (response.brokers[0].host, response.brokers[0].port) == ("127.0.0.1", 9092)
    assert response.topics[0].partitions[0].leader_id == wire.NODE_ID


def test_offsets_are_asked_for_and_listed():
    partition = list_offsets_request.ListOffsetsPartition(partition_index=0, timestamp=-2)
    topics = (list_offsets_request.ListOffsetsTopic(name="flights", partitions=(partition,)),)
    frame = memoryview(encode_request(list_offsets_request.ListOffsetsRequest(replica_id=-1, topics=topics), 1))
    assert wire.read_list_offsets(frame) == (b"flights", wire.EARLIEST_TIMESTAMP)
    response = decoded(wire.write_listed_offset(b"flights", 12), list_offsets_response.ListOffsetsResponse)
    assert response.topics[0].partitions[0].offset == 12


def test_topics_are_named_and_confirmed():
    topic = create_topics_request.CreatableTopic(
        name="flights", num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    request = create_topics_request.CreateTopicsRequest(topics=(topic,), timeout=timedelta(seconds=1))
    assert wire.read_topic_names(memoryview(encode_request(request, 1))) == [b"flights"]
    created = decoded(wire.write_created_topics([b"flights"]), create_topics_response.CreateTopicsResponse)
    assert [(each.name, each.error_code) for each in created.topics] == [("flights", ErrorCode.none)]
    deleted = decoded(wire.write_deleted_topics([b"flights"]), delete_topics_response.DeleteTopicsResponse)
    assert [(each.name, each.error_code) for each in deleted.responses] == [("flights", ErrorCode.none)]


def test_versions_and_producer_ids_are_kafkas():
    response = decoded(wire.write_api_versions(0), api_versions.ApiVersionsResponse)
    assert {each.api_key: each.max_version for each in response.api_keys} == wire.SPOKEN_VERSIONS
    assert decoded(wire.write_producer_id(5), init_producer_id.InitProducerIdResponse).producer_id == 5


def test_varints_survive_the_round_trip():
    for value in (0, 1, 127, 128, 300, 2**31):
        encoded = wire.write_uvarint(value)
        assert wire.read_uvarint(memoryview(encoded), 0) == (value, len(encoded))
