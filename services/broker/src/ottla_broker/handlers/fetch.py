"""Fetch (key 1): record data from partitions this broker leads, sent from the file without entering Python.

A fetch is answered as soon as `min_bytes` are there, something is wrong, `max_wait` is over, or its client asks for
something else on the same connection. The data of one response is bounded by the request's limits and by
`fetch.max.bytes`; the first partition that has any gives at least one batch, so that a reader always makes progress.
Fetch sessions (KIP-227) are answered as sessionless, which every client accepts: it then names all its partitions in
each request.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Outcome, Parts
from ottla_broker.delayed_fetch import DelayedFetch
from ottla_broker.log.log_reader import LogSlice
from ottla_broker.partition import Partition
from ottla_core.errors import KafkaError, NotLeaderOrFollower
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.wire.fetch_response import PartitionFetched, encode_fetch_response

FIRST_VERSION_BY_TOPIC_ID = 13
FIRST_VERSION_WITH_EPOCH = 9
FIRST_VERSION_WITH_LAST_FETCHED_EPOCH = 12
READ_COMMITTED = 1
NO_SESSION = 0
FINAL_EPOCH = -1
NO_EPOCH = -1

TopicFetched = tuple[str | UUID, list[PartitionFetched[LogSlice]]]


@dataclass(slots=True)
class _Reading:
    """What one look at the logs found, and how many bytes the response may still take."""

    bytes_left: int
    topics: list[TopicFetched] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    size: int = 0
    has_error: bool = False


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer from the logs as they are, or wait for more."""
    message = request.message
    if request.version >= 7 and message.session_id != NO_SESSION and message.session_epoch != FINAL_EPOCH:
        header = request.response_header()
        return list(
            encode_fetch_response(request.version, header, [], error_code=ErrorCode.fetch_session_id_not_found)
        )
    reading = _read(broker, request)
    max_wait_s = message.max_wait.total_seconds()
    if reading.size >= message.min_bytes or reading.has_error or max_wait_s <= 0 or not reading.partitions:
        return _answer(broker, request, reading)
    delayed = DelayedFetch(
        reading.partitions,
        message.min_bytes - reading.size,
        max_wait_s,
        request.connection.delayed,
        lambda: _answer(broker, request, _read(broker, request)),
    )
    return delayed.answered


def _read(broker: Broker, request: Request) -> _Reading:
    message = request.message
    reading = _Reading(bytes_left=min(message.max_bytes, broker.config.fetch_max_bytes))
    by_id = request.version >= FIRST_VERSION_BY_TOPIC_ID
    for topic in message.topics:
        named = (topic.topic_id or ZERO_UUID) if by_id else topic.topic
        fetched: list[PartitionFetched[LogSlice]] = []
        for wanted in topic.partitions:
            outcome = _read_partition(broker, request, named, wanted, reading)
            if outcome.records is not None:
                reading.bytes_left -= outcome.records.size
                reading.size += outcome.records.size
            elif outcome.error_code != ErrorCode.none or outcome.diverging_epoch is not None:
                reading.has_error = True
            fetched.append(outcome)
        reading.topics.append((named, fetched))
    return reading


def _read_partition(
    broker: Broker, request: Request, named: str | UUID, wanted: Any, reading: _Reading
) -> PartitionFetched[LogSlice]:
    committed = request.message.isolation_level == READ_COMMITTED
    try:
        partition = broker.partitions.leader_of(named, wanted.partition)
        if request.version >= FIRST_VERSION_WITH_EPOCH:
            partition.check_epoch(wanted.current_leader_epoch)
        if request.version >= FIRST_VERSION_WITH_LAST_FETCHED_EPOCH and wanted.last_fetched_epoch != NO_EPOCH:
            diverging = _diverging_epoch(partition, wanted.last_fetched_epoch, wanted.fetch_offset)
            if diverging is not None:
                return _outcome(partition, committed=committed, diverging_epoch=diverging)
        records = None
        if reading.bytes_left > 0 or reading.size == 0:
            max_bytes = min(wanted.partition_max_bytes, max(reading.bytes_left, 0))
            records = partition.read(wanted.fetch_offset, max_bytes, at_least_one_batch=reading.size == 0)
        reading.partitions.append(partition)
        return _outcome(partition, committed=committed, records=records)
    except KafkaError as error:
        moved = isinstance(error, NotLeaderOrFollower)
        leader = broker.current_leader(named, wanted.partition) if moved else None
        return PartitionFetched(wanted.partition, error.code, current_leader=leader, read_committed=committed)


def _outcome(
    partition: Partition,
    *,
    committed: bool,
    records: LogSlice | None = None,
    diverging_epoch: tuple[int, int] | None = None,
) -> PartitionFetched[LogSlice]:
    """Return an outcome with the log's offsets; without transactions the last stable offset is the high watermark."""
    log = partition.log
    high_watermark = log.high_watermark
    return PartitionFetched(
        partition.topic_partition.partition,
        ErrorCode.none,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=log.log_start_offset,
        records=records,
        read_committed=committed,
        diverging_epoch=diverging_epoch,
    )


def _diverging_epoch(partition: Partition, last_epoch: int, offset: int) -> tuple[int, int] | None:
    """Return where the reader's log parts from this one, if it does (KIP-595)."""
    epoch, end_offset = partition.log.end_offset_for_epoch(last_epoch)
    return (epoch, end_offset) if epoch < last_epoch or end_offset < offset else None


def _answer(broker: Broker, request: Request, reading: _Reading) -> Parts:
    leaders = {
        outcome.current_leader.leader_id
        for _, fetched in reading.topics
        for outcome in fetched
        if outcome.current_leader is not None
    }
    endpoints = broker.node_endpoints(leaders, request.connection.listener_name) if leaders else ()
    return list(
        encode_fetch_response(request.version, request.response_header(), reading.topics, node_endpoints=endpoints)
    )
