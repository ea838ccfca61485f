"""ListOffsets (key 2): offsets by time, and the first, last and latest-stamped offsets of partitions.

To consumers a partition ends at its high watermark, or at its last stable offset if they read committed records only;
to replicas at the log's end. Who gives the id that stands for
somebody who debugs sees all of the log as well, and is answered by any replica. A new leader's high watermark
may be behind what the former leader has told; until it has reached the start of the leader's epoch consumers are told
to ask again, rather than be shown offsets that go back (KIP-207).
"""

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
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.log.appends.unpacking import Found, LongSearch
from ottla_broker.log.partition.read_isolation import READ_COMMITTED, ReadIsolation, isolation_of
from ottla_broker.outcome import Outcome, Parts
from ottla_broker.partition import Partition
from ottla_core.errors import KafkaError, UnsupportedVersion
from ottla_core.slices import started


class Special(IntEnum):
    """Timestamps that ask for something else than a time; the numbers are Kafka's."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


CONSUMER = -1
DEBUGGER = -2
"""What those who are no broker give as their replica's id."""

FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5

UNKNOWN = -1
"""What stands for an absent offset, timestamp or leader epoch."""

OLDEST_VERSION_OF: Mapping[int, int] = {
    Special.MAX_TIMESTAMP: 7,
    Special.EARLIEST_LOCAL: 8,
    Special.LATEST_TIERED: 9,
    Special.EARLIEST_PENDING_UPLOAD: 11,
}


class OffsetNotAvailable(KafkaError):
    """The leader has just been elected, and does not know yet what consumers may see."""

    code = ErrorCode.offset_not_available


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer for each partition on its own."""
    return started(_handle(broker, request))


async def _handle(broker: Broker, request: Request) -> Parts:
    topics, message = [], request.newest()
    isolation = isolation_of(
        is_replica=message.replica_id != CONSUMER, read_committed=message.isolation_level == READ_COMMITTED
    )
    for topic in message.topics:
        partitions = [await _answer(broker, request, topic.name, wanted, isolation) for wanted in topic.partitions]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions)))
    return request.respond(ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics)))


async def _answer(
    broker: Broker, request: Request, topic: str, wanted: Any, isolation: ReadIsolation
) -> ListOffsetsPartitionResponse:
    error, found = ErrorCode.none, (UNKNOWN, UNKNOWN, UNKNOWN)
    try:
        timestamp = wanted.timestamp
        if request.version < OLDEST_VERSION_OF.get(timestamp, 0) or timestamp < min(Special):
            raise UnsupportedVersion(f"timestamp {timestamp} has no meaning in version {request.version}")
        found = await _find(broker, request, topic, wanted, isolation)
    except KafkaError as refused:
        error = refused.code
        if isinstance(refused, OffsetNotAvailable) and request.version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE:
            error = ErrorCode.leader_not_available
    offset, found_timestamp, leader_epoch = found
    return ListOffsetsPartitionResponse(
        partition_index=i32(wanted.partition_index),
        error_code=error,
        timestamp=i64(found_timestamp),
        offset=i64(offset),
        leader_epoch=i32(leader_epoch),
    )


def _partition(broker: Broker, request: Request, topic: str, wanted: Any) -> Partition:
    """Return the partition that is asked about, if this broker may answer for it.

    Raises:
        KafkaError: it may not.
    """
    look_up = broker.partitions.replica_of if request.message.replica_id == DEBUGGER else broker.partitions.leader_of
    partition = look_up(topic, wanted.partition_index)
    partition.check_epoch(wanted.current_leader_epoch)
    if request.message.replica_id == CONSUMER:
        partition.check_readable()
    return partition


async def _find(broker: Broker, request: Request, topic: str, wanted: Any, isolation: ReadIsolation) -> Found:
    partition = _partition(broker, request, topic, wanted)
    log = partition.log
    match wanted.timestamp:
        case Special.LATEST:
            if isolation is not ReadIsolation.LOG_END:
                _check_end_is_known(partition)
            return partition.end_for(isolation), UNKNOWN, partition.state.leader_epoch
        case Special.EARLIEST | Special.EARLIEST_LOCAL:
            return log.log_start_offset, UNKNOWN, log.leader_epochs.epoch_at(log.log_start_offset)
        case Special.LATEST_TIERED | Special.EARLIEST_PENDING_UPLOAD:
            return UNKNOWN, UNKNOWN, UNKNOWN  # nothing is ever moved to remote storage
        case Special.MAX_TIMESTAMP:
            latest = log.max_timestamp()
        case timestamp:
            latest = log.offset_for_timestamp(timestamp)
    if isinstance(latest, LongSearch):
        latest = await latest.run()
        partition = _partition(broker, request, topic, wanted)  # it may have another leader by now
    if latest is None or latest[0] >= partition.end_for(isolation):
        _check_end_is_known(partition)
        return UNKNOWN, UNKNOWN, UNKNOWN
    return latest


def _check_end_is_known(partition: Partition) -> None:
    """See that the high watermark is not behind what the former leader may have told.

    Raises:
        OffsetNotAvailable: it may be.
    """
    leader = partition.leader
    if leader is not None and partition.log.high_watermark < leader.epoch_start_offset:
        raise OffsetNotAvailable(f"{partition.topic_partition} does not know yet what is replicated")
