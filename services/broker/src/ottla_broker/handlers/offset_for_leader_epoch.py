"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, to find where a log parted (KIP-320)."""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kio.static.primitive import i32, i64

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_core.errors import KafkaError

UNKNOWN = -1


def handle(broker: Broker, request: Request) -> Parts:
    """Answer for each partition on its own."""
    topics = tuple(
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=tuple(_answer(broker, topic.topic, wanted) for wanted in topic.partitions)
        )
        for topic in request.newest().topics
    )
    return request.respond(OffsetForLeaderEpochResponse(throttle_time=NO_THROTTLE, topics=topics))


def _answer(broker: Broker, topic: str, wanted: Any) -> EpochEndOffset:
    error, epoch, end_offset = ErrorCode.none, UNKNOWN, UNKNOWN
    try:
        partition = broker.partitions.leader_of(topic, wanted.partition)
        partition.check_epoch(wanted.current_leader_epoch)
        partition.check_readable()  # followers do not ask, they fetch
        epoch, end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as refused:
        error = refused.code
    return EpochEndOffset(
        error_code=error, partition=i32(wanted.partition), leader_epoch=i32(epoch), end_offset=i64(end_offset)
    )
