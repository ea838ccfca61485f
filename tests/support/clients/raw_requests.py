"""Requests of the raw client, each at one fixed version, with only the parts that tests vary as arguments.

The versions are the newest that name topics rather than topic ids, so that a probe needs no metadata first.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kio.schema.alter_partition_reassignments.v1 import request as alter_reassignments
from kio.schema.create_topics.v7 import request as create_topics
from kio.schema.delete_records.v2 import request as delete_records
from kio.schema.delete_topics.v6 import request as delete_topics
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import request as fetch
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.list_offsets.v7 import request as list_offsets
from kio.schema.metadata.v12 import request as metadata
from kio.schema.produce.v9 import request as produce
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from tests.support.clients.raw_client import RawClient
from tests.support.eventually import eventually

TIMEOUT = i32Timedelta.parse(timedelta(seconds=10))
LATEST = -1
EARLIEST = -2
ALL_IN_SYNC = -1
CONSUMER = -1
DEBUGGER = -2
"""Stands for a replica's id in requests of those who want to see everything in the log."""


def produce_request(topic: str, records: bytes | None, *, partition: int = 0, acks: int = ALL_IN_SYNC) -> Any:
    """A Produce request of one partition whose records are these bytes, right or wrong."""
    data = produce.PartitionProduceData(index=i32(partition), records=records)  # type: ignore[arg-type]
    return produce.ProduceRequest(
        acks=i16(acks),
        timeout=TIMEOUT,
        topic_data=(produce.TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    bytes_max: int = 1 << 20,
    wait_max_ms: int = 500,
    bytes_min: int = 1,
) -> Any:
    """A sessionless Fetch of one partition."""
    wanted = fetch.FetchPartition(
        partition=i32(partition), fetch_offset=i64(offset), partition_max_bytes=i32(bytes_max)
    )
    return fetch.FetchRequest(
        max_wait=i32Timedelta.parse(timedelta(milliseconds=wait_max_ms)),
        min_bytes=i32(bytes_min),
        max_bytes=i32(bytes_max),
        topics=(fetch.FetchTopic(topic=TopicName(topic), partitions=(wanted,)),),
        forgotten_topics_data=(),
    )


def list_offsets_request(topic: str, timestamp: int, *, partition: int = 0, replica_id: int = CONSUMER) -> Any:
    """ListOffsets of one partition: `LATEST`, `EARLIEST` or a time in milliseconds."""
    wanted = list_offsets.ListOffsetsPartition(partition_index=i32(partition), timestamp=i64(timestamp))
    return list_offsets.ListOffsetsRequest(
        replica_id=BrokerId(replica_id),
        isolation_level=i8(0),
        topics=(list_offsets.ListOffsetsTopic(name=TopicName(topic), partitions=(wanted,)),),
    )


def delete_records_request(topic: str, before_offset: int, *, partition: int = 0) -> Any:
    """DeleteRecords of one partition."""
    wanted = delete_records.DeleteRecordsPartition(partition_index=i32(partition), offset=i64(before_offset))
    return delete_records.DeleteRecordsRequest(
        topics=(delete_records.DeleteRecordsTopic(name=TopicName(topic), partitions=(wanted,)),), timeout=TIMEOUT
    )


def metadata_request(topics: list[str] | None) -> Any:
    """Metadata of these topics, or of all; never creates one."""
    named = None if topics is None else tuple(_metadata_topic(topic) for topic in topics)
    return metadata.MetadataRequest(
        topics=named, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def init_producer_id_request() -> Any:
    """A producer id for an idempotent producer without transactions."""
    return InitProducerIdRequest(transactional_id=None, transaction_timeout=TIMEOUT)


def create_topic_request(
    topic: str,
    *,
    partitions: int = 1,
    replication_factor: int = 1,
    configs: Mapping[str, str | None] | None = None,
    assignments: Mapping[int, tuple[int, ...]] | None = None,
    validate_only: bool = False,
) -> Any:
    """CreateTopics of one topic."""
    created = create_topics.CreatableTopic(
        name=TopicName(topic),
        num_partitions=i32(partitions),
        replication_factor=i16(replication_factor),
        assignments=tuple(
            create_topics.CreatableReplicaAssignment(
                partition_index=i32(index), broker_ids=tuple(BrokerId(broker) for broker in brokers)
            )
            for index, brokers in (assignments or {}).items()
        ),
        configs=tuple(
            create_topics.CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()
        ),
    )
    return create_topics.CreateTopicsRequest(topics=(created,), timeout=TIMEOUT, validate_only=validate_only)


def delete_topic_request(topic: str) -> Any:
    """DeleteTopics of one topic, by name."""
    doomed = delete_topics.DeleteTopicState(name=TopicName(topic), topic_id=None)
    return delete_topics.DeleteTopicsRequest(topics=(doomed,), timeout=TIMEOUT)


def reassign_request(topic: str, *replicas: tuple[int, ...] | None, may_change_factor: bool = True) -> Any:
    """AlterPartitionReassignments of a topic's first partitions; None cancels a partition's."""
    partitions = tuple(
        alter_reassignments.ReassignablePartition(
            partition_index=i32(index),
            replicas=None if ids is None else tuple(BrokerId(broker_id) for broker_id in ids),
        )
        for index, ids in enumerate(replicas)
    )
    return alter_reassignments.AlterPartitionReassignmentsRequest(
        timeout=TIMEOUT,
        allow_replication_factor_change=may_change_factor,
        topics=(alter_reassignments.ReassignableTopic(name=TopicName(topic), partitions=partitions),),
    )


def produced(response: Any) -> Any:
    """The one partition's part of a Produce response."""
    return response.responses[0].partition_responses[0]


def fetched(response: FetchResponse) -> Any:
    """The one partition's part of a Fetch response."""
    return response.responses[0].partitions[0]


def end_offset(client: RawClient, topic: str, *, partition: int = 0) -> int:
    """The partition's end as a consumer sees it, once the followers have all that is in the log by now.

    A broker may just have started, so this also waits until the partition has a leader.
    """

    def end(replica_id: int, at_least: int = 0) -> tuple[int] | None:
        request = list_offsets_request(topic, LATEST, partition=partition, replica_id=replica_id)
        (answer,) = client.ask(request).topics[0].partitions
        if answer.error_code in (ErrorCode.not_leader_or_follower, ErrorCode.offset_not_available):
            return None
        assert answer.error_code is ErrorCode.none, answer.error_code.name
        return (int(answer.offset),) if answer.offset >= at_least else None

    log_end = eventually(lambda: end(DEBUGGER), f"{topic}-{partition} has a leader")
    assert log_end is not None
    replicated = eventually(lambda: end(CONSUMER, *log_end), f"{topic}-{partition} is replicated up to {log_end[0]}")
    assert replicated is not None
    return replicated[0]


def _metadata_topic(topic: str) -> Any:
    return metadata.MetadataRequestTopic(topic_id=None, name=TopicName(topic))
