"""DeleteRecords (key 21): move a partition's log start offset forward."""

from typing import Any

from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i64

from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Parts
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_core.errors import InvalidTopic, KafkaError, OffsetOutOfRange
from ottla_core.group_shards import INTERNAL_TOPICS

HIGH_WATERMARK = -1
UNKNOWN = -1


def handle(broker: Broker, request: Request) -> Parts:
    """Answer for each partition on its own."""
    topics = tuple(
        DeleteRecordsTopicResult(
            name=topic.name, partitions=tuple(_answer(broker, topic.name, wanted) for wanted in topic.partitions)
        )
        for topic in request.newest().topics
    )
    return request.respond(DeleteRecordsResponse(throttle_time=NO_THROTTLE, topics=topics))


def _answer(broker: Broker, topic: str, wanted: Any) -> DeleteRecordsPartitionResult:
    error, low_watermark = ErrorCode.none, UNKNOWN
    try:
        low_watermark = _delete(broker, topic, wanted.partition_index, wanted.offset)
    except KafkaError as refused:
        error = refused.code
    return DeleteRecordsPartitionResult(
        partition_index=i32(wanted.partition_index), low_watermark=i64(low_watermark), error_code=error
    )


def _delete(broker: Broker, topic: str, index: int, before_offset: int) -> int:
    if topic in INTERNAL_TOPICS:
        raise InvalidTopic(f"records of the internal topic {topic} cannot be deleted")
    partition = broker.partitions.leader_of(topic, index)
    log = partition.log
    offset = log.high_watermark if before_offset == HIGH_WATERMARK else before_offset
    if not 0 <= offset <= log.high_watermark:
        raise OffsetOutOfRange(f"{topic}-{index} ends at {log.high_watermark}; cannot delete up to {offset}")
    return log.delete_records_before(offset)
