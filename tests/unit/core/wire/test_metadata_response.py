"""The pieces of a hand-written Metadata response are, put together, what kio reads, in every version."""

from typing import Any
from uuid import UUID

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from ottla_core.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from ottla_core.wire.messages import newest_version, oldest_version
from ottla_core.wire.metadata_response import BrokerMetadata, MetadataEncoder, TopicMetadata

METADATA = 3
TOPIC_ID = UUID("11223344-5566-7788-99aa-bbccddeeff00")
BROKERS = [BrokerMetadata(1, "127.0.0.1", 9092, "a"), BrokerMetadata(2, "host.example", 65535, None)]
MANY = tuple(range(1, 200))


def encoded(version: int, topics: list[tuple[TopicMetadata, list[dict[str, Any]]]]) -> Any:
    encoder = MetadataEncoder(version)
    pieces = [encoder.beginning(BROKERS, cluster_id="cluster", controller_id=2, topic_count=len(topics))]
    for topic, partitions in topics:
        pieces.append(encoder.topic_beginning(topic, len(partitions)))
        pieces += [encoder.partition(**partition) for partition in partitions]
        pieces.append(encoder.topic_end(topic))
    pieces.append(encoder.end(cluster_operations=CLUSTER_OPERATIONS))
    body = memoryview(b"".join(pieces)).toreadonly()
    message, size = entity_reader(load_response_schema(METADATA, version))(body, 0)
    assert size == len(body), "bytes were left over"
    return message


def partition(index: int, **changed: Any) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "index": index,
        "leader": 1,
        "leader_epoch": 7,
        "replicas": (1, 2),
        "in_sync": (1,),
        "offline": (2,),
        **changed,
    }


@pytest.mark.parametrize("version", range(oldest_version(METADATA), newest_version(METADATA) + 1))
def test_a_response_is_what_kio_reads(version: int) -> None:
    known = TopicMetadata(ErrorCode.none, "flights", TOPIC_ID, is_internal=True, operations=TOPIC_OPERATIONS)
    unknown = TopicMetadata(ErrorCode.unknown_topic_or_partition, "", None)
    leaderless = partition(1, error_code=ErrorCode.leader_not_available, leader=-1, replicas=MANY, in_sync=())
    message = encoded(version, [(known, [partition(0), leaderless]), (unknown, [])])

    assert [(each.node_id, each.host, each.port) for each in message.brokers] == [
        (each.id, each.host, each.port) for each in BROKERS
    ]
    first, second = message.topics
    assert (first.error_code, first.name) == (ErrorCode.none, "flights")
    assert (second.error_code, second.name, second.partitions) == (ErrorCode.unknown_topic_or_partition, "", ())
    led, without_leader = first.partitions
    assert (led.error_code, led.partition_index, led.leader_id) == (ErrorCode.none, 0, 1)
    assert (led.replica_nodes, led.isr_nodes) == ((1, 2), (1,))
    assert without_leader.error_code is ErrorCode.leader_not_available
    assert (without_leader.partition_index, without_leader.leader_id) == (1, -1)
    assert (without_leader.replica_nodes, without_leader.isr_nodes) == (MANY, ())
    if version >= 1:
        assert [each.rack for each in message.brokers] == ["a", None]
        assert (message.controller_id, first.is_internal, second.is_internal) == (2, True, False)
    if version >= 2:
        assert message.cluster_id == "cluster"
    if version >= 5:
        assert led.offline_replicas == (2,)
    if version >= 7:
        assert led.leader_epoch == 7
    if version >= 8:
        assert (first.topic_authorized_operations, second.topic_authorized_operations) == (
            TOPIC_OPERATIONS,
            NOT_ASKED,
        )
    if 8 <= version <= 10:
        assert message.cluster_authorized_operations == CLUSTER_OPERATIONS
    if version >= 10:
        assert (first.topic_id, second.topic_id) == (TOPIC_ID, None)
    if version >= 13:
        assert message.error_code is ErrorCode.none


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_that_was_asked_for_by_id_has_no_name(version: int) -> None:
    (topic,) = encoded(version, [(TopicMetadata(ErrorCode.unknown_topic_id, None, TOPIC_ID), [])]).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.unknown_topic_id, None, TOPIC_ID)
