"""Produce (key 0): append record batches to partitions this broker leads.

Every partition is appended to at once and answered on its own; one refused batch does not hold back another. The
answer leaves when the records are as safe as the producer and the topic ask: in the log, and fsynced where
`flush.messages` makes a flush due.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Outcome, Parts
from ottla_broker.log.partition_log import PartitionLog
from ottla_core.errors import (
    InvalidRecord,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    PolicyViolation,
)
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.wire.produce_response import PartitionProduced, TopicProduced, encode_produce_response

ALL_IN_SYNC = -1
NO_ACKNOWLEDGEMENT = 0
ACKS = (ALL_IN_SYNC, NO_ACKNOWLEDGEMENT, 1)
FIRST_VERSION_BY_TOPIC_ID = 13

logger = structlog.get_logger("produce")


class InvalidRequiredAcks(KafkaError):
    """The request's acks is none of -1, 0 and 1."""

    code = ErrorCode.invalid_required_acks


@dataclass(slots=True)
class _Flush:
    """An outcome that must not be told before the log is on the disk up to `end_offset`."""

    outcomes: list[PartitionProduced]
    position: int
    log: PartitionLog
    end_offset: int


def handle(broker: Broker, request: Request) -> Outcome:
    """Append what was sent, then answer: at once, or when the disk has it where that is asked for."""
    flushes: list[_Flush] = []
    topics: list[TopicProduced] = []
    by_id = request.version >= FIRST_VERSION_BY_TOPIC_ID
    for topic in request.message.topic_data:
        named = (topic.topic_id or ZERO_UUID) if by_id else topic.name
        topics.append((named, _append_to_topic(broker, request, named, topic.partition_data, flushes)))
    if flushes:
        return _answer_when_flushed(broker, request, topics, flushes)
    return _answer(broker, request, topics)


def _append_to_topic(
    broker: Broker, request: Request, named: str | UUID, partitions: Iterable[Any], flushes: list[_Flush]
) -> list[PartitionProduced]:
    outcomes: list[PartitionProduced] = []
    acks = request.message.acks
    for data in partitions:
        try:
            if acks not in ACKS:
                raise InvalidRequiredAcks(f"acks is {acks}; it must be -1, 0 or 1")
            if request.message.transactional_id is not None:
                raise PolicyViolation("this cluster has no transactions")
            if not data.records:
                raise InvalidRecord(f"no record batch for {named}-{data.index}")
            partition = broker.partitions.leader_of(broker.topic_name(named), data.index)
            appended = partition.append(data.records, now_ms=broker.clock.time_ms(), all_in_sync=acks == ALL_IN_SYNC)
        except KafkaError as error:
            outcomes.append(_refused(broker, named, data.index, error))
            continue
        if acks != NO_ACKNOWLEDGEMENT and partition.log.flush_is_due:
            flushes.append(_Flush(outcomes, len(outcomes), partition.log, appended.last_offset + 1))
        outcomes.append(
            PartitionProduced(
                data.index,
                ErrorCode.none,
                base_offset=appended.base_offset,
                log_append_time_ms=appended.log_append_time_ms,
                log_start_offset=appended.log_start_offset,
            )
        )
    return outcomes


def _refused(broker: Broker, named: str | UUID, index: int, error: KafkaError) -> PartitionProduced:
    logger.debug("produce refused", topic=str(named), partition=index, code=error.code.name, error=error.message)
    moved = isinstance(error, NotLeaderOrFollower)
    return PartitionProduced(
        index,
        error.code,
        error_message=error.message,
        current_leader=broker.current_leader(broker.topic_name(named), index) if moved else None,
    )


async def _answer_when_flushed(
    broker: Broker, request: Request, topics: list[TopicProduced], flushes: list[_Flush]
) -> Parts | None:
    for flush in flushes:
        try:
            await flush.log.flushed(flush.end_offset)
        except KafkaStorageError as error:
            flush.outcomes[flush.position] = replace(
                flush.outcomes[flush.position], error_code=error.code, error_message=error.message
            )
    return _answer(broker, request, topics)


def _answer(broker: Broker, request: Request, topics: list[TopicProduced]) -> Parts | None:
    if request.message.acks == NO_ACKNOWLEDGEMENT:
        _raise_if_refused(topics)
        return None
    leaders = {
        produced.current_leader.leader_id
        for _, partitions in topics
        for produced in partitions
        if produced.current_leader is not None
    }
    endpoints = broker.node_endpoints(leaders, request.connection.listener_name) if leaders else ()
    return [encode_produce_response(request.version, request.response_header(), topics, endpoints)]


def _raise_if_refused(topics: list[TopicProduced]) -> None:
    """Close the connection of a producer that wants no answer but must hear that something went wrong."""
    for named, partitions in topics:
        for produced in partitions:
            if produced.error_code != ErrorCode.none:
                raise InvalidRequest(
                    f"produce with acks=0 to {named}-{produced.index} failed: {produced.error_message}"
                )
