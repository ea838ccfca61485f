"""ListOffsets (key 2): offsets by time, and the first, last and latest-stamped offsets of partitions."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import i32, i64

from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Parts
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.partition import Partition
from ottla_core.errors import KafkaError, UnsupportedVersion


class Special(IntEnum):
    """Timestamps that ask for something else than a time; the numbers are Kafka's."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


UNKNOWN = -1
"""What stands for an absent offset, timestamp or leader epoch."""

OLDEST_VERSION_OF: Mapping[int, int] = {
    Special.MAX_TIMESTAMP: 7,
    Special.EARLIEST_LOCAL: 8,
    Special.LATEST_TIERED: 9,
    Special.EARLIEST_PENDING_UPLOAD: 11,
}

Found = tuple[int, int, int]
"""Offset, timestamp in milliseconds, and leader epoch."""


def handle(broker: Broker, request: Request) -> Parts:
    """Answer for each partition on its own."""
    message = request.newest()
    topics = tuple(
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(_answer(broker, request, topic.name, wanted) for wanted in topic.partitions),
        )
        for topic in message.topics
    )
    return request.respond(ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=topics))


def _answer(broker: Broker, request: Request, topic: str, wanted: Any) -> ListOffsetsPartitionResponse:
    error, found = ErrorCode.none, (UNKNOWN, UNKNOWN, UNKNOWN)
    try:
        timestamp = wanted.timestamp
        if request.version < OLDEST_VERSION_OF.get(timestamp, 0) or timestamp < min(Special):
            raise UnsupportedVersion(f"timestamp {timestamp} has no meaning in version {request.version}")
        partition = broker.partitions.leader_of(topic, wanted.partition_index)
        partition.check_epoch(wanted.current_leader_epoch)
        found = _find(partition, timestamp)
    except KafkaError as refused:
        error = refused.code
    offset, found_timestamp, leader_epoch = found
    return ListOffsetsPartitionResponse(
        partition_index=i32(wanted.partition_index),
        error_code=error,
        timestamp=i64(found_timestamp),
        offset=i64(offset),
        leader_epoch=i32(leader_epoch),
    )


def _find(partition: Partition, timestamp: int) -> Found:
    log = partition.log
    match timestamp:
        case Special.LATEST:
            return log.high_watermark, UNKNOWN, partition.state.leader_epoch
        case Special.EARLIEST | Special.EARLIEST_LOCAL:
            return log.log_start_offset, UNKNOWN, log.leader_epochs.epoch_at(log.log_start_offset)
        case Special.LATEST_TIERED | Special.EARLIEST_PENDING_UPLOAD:
            return UNKNOWN, UNKNOWN, UNKNOWN  # nothing is ever moved to remote storage
        case Special.MAX_TIMESTAMP:
            latest = log.max_timestamp()
        case _:
            latest = log.offset_for_timestamp(timestamp)
    if latest is None or latest[0] >= log.high_watermark:
        return UNKNOWN, UNKNOWN, UNKNOWN
    return latest
