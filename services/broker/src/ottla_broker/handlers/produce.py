"""Produce (key 0): append record batches to partitions this broker leads.

Every partition is appended to at once and answered on its own; one refused batch does not hold back another. The
answer leaves when the records are as safe as the producer and the topic ask: in the log, with acks=all on every
in-sync replica, and fsynced where `flush.messages` makes a flush due (`delayed_produce.py`).

The first batches of a transaction are appended when its coordinator has confirmed the partitions, or added them
(`transactions/produce_verification.py`). Until then nothing else is taken from the connection.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.delayed_produce import PRODUCE_KEY, DelayedProduce, PendingAck
from ottla_broker.log.appends.append_result import AppendResult
from ottla_broker.log.appends.unpacking import LookedInto
from ottla_broker.outcome import Answer, Outcome, Parts
from ottla_broker.partition import Partition
from ottla_broker.transactions.produce_verification import (
    ProduceVerification,
    Retrying,
    VerificationResult,
    has_transactional_batches,
    is_transactional,
)
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.errors import (
    DuplicateSequenceNumber,
    InvalidRecord,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    NotLeaderOrFollower,
    PolicyViolation,
    TransactionalIdAuthorizationFailed,
)
from ottla_core.observe.request_errors import count_error
from ottla_core.shards import INTERNAL_TOPICS
from ottla_core.slices import Pace, started
from ottla_core.wire.leader_hint import NodeEndpoint
from ottla_core.wire.produce_request import PartitionData, ProduceRequest
from ottla_core.wire.produce_response import PartitionProduced, TopicProduced, encode_produce_response

ALL_IN_SYNC = -1
NO_ACKNOWLEDGEMENT = 0
LEADER_ONLY = 1
ACKS = (ALL_IN_SYNC, NO_ACKNOWLEDGEMENT, LEADER_ONLY)
FIRST_VERSION_WITH_LEADERS = 10
BATCHES_AT_ONCE_MAX = 200
"""Batches that are appended without a rest: some milliseconds of work."""
ADMIN_CLIENT_ID = "__admin_client"
"""The client id with which Kafka lets tools write to internal topics."""
PASSING_REFUSALS = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.kafka_storage_error,
        ErrorCode.concurrent_transactions,
    }
)
"""Why a batch is refused that the producer is going to send again."""
TAKEN_FOR_SUCCESS = frozenset({ErrorCode.none, ErrorCode.duplicate_sequence_number})

logger = structlog.get_logger("produce")


class InvalidRequiredAcks(KafkaError):
    """The request's acks is none of -1, 0 and 1."""

    code = ErrorCode.invalid_required_acks


_Kept = tuple[str | UUID, list[PartitionData], list[PartitionProduced]]
"""A topic, what is left to be appended of it, and the list for the outcomes."""

Led = tuple[Partition, int, list[PartitionProduced], int]
"""A partition that was appended to, the leader epoch then, the list that has the outcome, and the position in it."""


@dataclass(slots=True)
class _Work:
    """A request and what has come of it so far.

    Attributes:
        topics: the topics of the request that were begun, with the outcomes of the batches tried so far, in order.
        pending_acks: what was appended and is to be waited for.
        led: what was appended for a producer that only asks that this broker has it as the leader (acks=1).
        verified: what the coordinator of the request's transaction has said; None without a transaction.
    """

    broker: Broker
    request: Request
    topics: list[tuple[str | UUID, list[PartitionProduced]]]
    pending_acks: list[PendingAck]
    led: list[Led]
    verified: VerificationResult | None = None


def handle(broker: Broker, request: Request) -> Outcome:
    """Append what was sent, then answer: at once, or when the records are as safe as is asked for."""
    work = _Work(broker, request, [], [], [])
    if request.message.transactional_id is not None:
        return _handle_transactional(work)
    return _append_all(work)


def _append_all(work: _Work) -> Outcome:
    request, count = work.request, 0
    for named, partitions in request.message.topics:
        outcomes: list[PartitionProduced] = []
        work.topics.append((named, outcomes))
        count += 1 + len(partitions)
        if count > BATCHES_AT_ONCE_MAX:
            return started(_go_on_with_rests(work))
        for data in partitions:
            if not _append(work, named, data, outcomes):
                return started(_go_on_with_rests(work))
    return _answer_when_safe(work)


def _handle_transactional(work: _Work) -> Outcome:
    """Have the coordinator of the transaction asked before its first batches are appended."""
    broker, request = work.broker, work.request
    message: ProduceRequest = request.message
    assert message.transactional_id is not None
    try:
        if not broker.state.features.has_transactions:
            raise PolicyViolation("this cluster has no transactions")
        if has_transactional_batches(message):
            kind = ResourceKind.TRANSACTIONAL_ID
            broker.authorization.check(request, AclOperation.WRITE, kind, message.transactional_id)
        verification = ProduceVerification(
            message,
            request.version,
            broker.partitions,
            lambda named: _may_write(broker, request, named),
            broker.transaction_coordinators.recent,
        )
    except KafkaError as error:
        return _refuse_all(work, error)
    if verification.is_needed:
        return started(_append_verified(work, verification))
    work.verified = verification.known()
    return _append_all(work)


async def _append_verified(work: _Work, verification: ProduceVerification) -> Answer | Awaitable[Answer]:
    kept = _kept(work)
    config = work.broker.config
    retrying = Retrying(
        config.add_partitions_to_txn_retry_backoff_ms / 1000, config.add_partitions_to_txn_retry_backoff_max_ms / 1000
    )
    work.verified = await verification.ask(work.broker.transaction_coordinators, retrying)
    return await _append_kept(work, kept)


def _refuse_all(work: _Work, error: KafkaError) -> Outcome:
    for named, partitions in work.request.message.topics:
        outcomes = [_refused(work.broker, named, data.partition, error) for data in partitions]
        work.topics.append((named, outcomes))
    return _answer(work)


def _may_write(broker: Broker, request: Request, named: str | UUID) -> bool:
    try:
        if broker.authorization.is_on:
            check_may_write(broker, request, named)
    except KafkaError:
        return False
    return True


async def _go_on_with_rests(work: _Work) -> Answer | Awaitable[Answer]:
    return await _append_kept(work, _kept(work))


def _kept(work: _Work) -> list[_Kept]:
    """Return what is left to be appended, in memory of its own: the frame is gone after the first rest."""
    message: ProduceRequest = work.request.message
    work.topics += [(named, []) for named, _ in message.topics[len(work.topics) :]]
    return [
        (named, [_copied(data) for data in partitions[len(outcomes) :]], outcomes)
        for (named, partitions), (_, outcomes) in zip(message.topics, work.topics, strict=True)
    ]


async def _append_kept(work: _Work, kept: Sequence[_Kept]) -> Answer | Awaitable[Answer]:
    """Append what is left batch by batch, resting in between; what has to be unpacked is, before it is appended."""
    pace = Pace()
    for named, partitions, outcomes in kept:
        for data in partitions:
            await _look_into_and_append(work, named, data, outcomes)
            if pace.is_over:
                await pace.rest()
        if pace.is_over:
            await pace.rest()
    _refuse_what_others_lead(work)
    return _answer_when_safe(work)


async def _look_into_and_append(
    work: _Work, named: str | UUID, data: PartitionData, outcomes: list[PartitionProduced]
) -> None:
    try:
        looked_into = await _look_into(work.broker, work.request, named, data)
    except KafkaError as error:
        outcomes.append(_refused(work.broker, named, data.partition, error))
        return
    if not _append(work, named, data, outcomes, looked_into, unpacks_here=True):
        raise AssertionError("a batch that may be unpacked here is appended or refused")


def _copied(data: PartitionData) -> PartitionData:
    return data if data.records is None else PartitionData(data.partition, memoryview(bytes(data.records)))


async def _look_into(broker: Broker, request: Request, named: str | UUID, data: PartitionData) -> LookedInto | None:
    """Look into a batch, if there is a log here that it may be appended to; if not, appending it says why.

    Raises:
        KafkaError: the batch breaks a rule.
    """
    try:
        if broker.authorization.is_on:
            check_may_write(broker, request, named)
        log = broker.partitions.leader_of(named, data.partition).log
    except KafkaError:
        return None
    if not data.records or not log.looks_into_records:
        return None
    return await log.look_into(data.records, broker.clock.time_ms())


def _answer_when_safe(work: _Work) -> Answer | Awaitable[Answer]:
    if work.pending_acks:
        timeout_s = max(0, work.request.message.timeout_ms) / 1000
        return DelayedProduce(work.pending_acks, timeout_s, lambda: _answer_after_waiting(work)).answered
    return _answer(work)


def _answer_after_waiting(work: _Work) -> Parts | None:
    _refuse_what_others_lead(work)
    return _answer(work)


def _refuse_what_others_lead(work: _Work) -> None:
    """Acknowledge nothing that was appended before another broker was elected, whose log may not have it.

    That may have happened in a rest, or while a flush took its time.
    """
    for partition, leader_epoch, outcomes, position in work.led:
        is_led = work.broker.partitions.leads_safely(partition) and partition.state.leader_epoch == leader_epoch
        if not is_led and outcomes[position].error_code in TAKEN_FOR_SUCCESS:
            index = partition.topic_partition.partition
            error = NotLeaderOrFollower(f"{partition.topic_partition} is not led here as when the batch was appended")
            outcomes[position] = _refused(work.broker, partition.topic_id, index, error)


def _append(
    work: _Work,
    named: str | UUID,
    data: PartitionData,
    outcomes: list[PartitionProduced],
    looked_into: LookedInto | None = None,
    *,
    unpacks_here: bool = False,
) -> bool:
    """Append one batch, and add what comes of it to the outcomes of its topic.

    Returns False, and has done nothing, if the batch may have to be unpacked and that is not to be done here.
    """
    broker, request = work.broker, work.request
    message: ProduceRequest = request.message
    acks, verified = message.acks, work.verified
    index, records = data
    try:
        if acks not in ACKS:
            raise InvalidRequiredAcks(f"acks is {acks}; it must be -1, 0 or 1")
        if broker.authorization.is_on:
            check_may_write(broker, request, named)
        if not records:
            raise InvalidRecord(f"no record batch for {named}-{index}")
        if message.transactional_id is None and is_transactional(records):
            raise TransactionalIdAuthorizationFailed("a batch of a transaction in a request without transactional id")
        partition = broker.partitions.leader_of(named, index)
        if partition.log.looks_into_records and not unpacks_here:
            return False
        producers = partition.log.producers
        broker.refused_batches.check(named, index, records, broker.clock.monotonic(), producers)
        if partition.topic_partition.topic in INTERNAL_TOPICS and request.header.client_id != ADMIN_CLIENT_ID:
            raise InvalidTopic(f"cannot append to the internal topic {partition.topic_partition.topic}")
        if verified is not None and (error_found := verified.errors.get((named, index))) is not None:
            raise error_found
        try:
            appended = partition.append(
                records,
                now_ms=broker.clock.time_ms(),
                all_in_sync=acks == ALL_IN_SYNC,
                looked_into=looked_into,
                verification=None if verified is None else verified.guards.get((named, index)),
            )
        except DuplicateSequenceNumber as repeated:
            outcome, end_offset = _refused(broker, named, index, repeated), repeated.end_offset
        else:
            outcome, end_offset = _stored(index, appended), appended.last_offset + 1
        if acks == LEADER_ONLY and not broker.partitions.leads_safely(partition):
            raise partition.not_leader()  # a disk that stalls may outlast the lease, and another leads now
    except KafkaError as error:
        if records and error.code in PASSING_REFUSALS:
            broker.refused_batches.refused(named, index, records, error, broker.clock.monotonic())
        outcomes.append(_refused(broker, named, index, error))
        return True
    _note_what_is_due(work, partition, outcomes, end_offset)
    outcomes.append(outcome)
    return True


def check_may_write(broker: Broker, request: Request, named: str | UUID) -> None:
    """See that a client may write to a topic; one that is not there is told of elsewhere.

    Raises:
        TopicAuthorizationFailed: it may not.
    """
    if isinstance(named, UUID):
        found = broker.state.topics_by_id.get(named)
        if found is None:
            return
        named = found.name
    broker.authorization.check_topic(request, AclOperation.WRITE, named)


def _note_what_is_due(work: _Work, partition: Partition, outcomes: list[PartitionProduced], end_offset: int) -> None:
    """Note what has to come true before the outcome that is added next may be told."""
    log, acks = partition.log, work.request.message.acks
    epoch = partition.state.leader_epoch  # others may lead before all batches are appended and waiting begins
    if acks == LEADER_ONLY:
        work.led.append((partition, epoch, outcomes, len(outcomes)))
    must_replicate, must_flush = acks == ALL_IN_SYNC and log.high_watermark < end_offset, log.flush_is_due
    if must_replicate or must_flush:
        work.pending_acks.append(
            PendingAck(outcomes, len(outcomes), partition, end_offset, epoch, must_replicate, must_flush)
        )


def _stored(index: int, appended: AppendResult) -> PartitionProduced:
    return PartitionProduced(
        index,
        ErrorCode.none,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=appended.log_start_offset,
    )


def _refused(broker: Broker, named: str | UUID, index: int, error: KafkaError) -> PartitionProduced:
    logger.debug("produce refused", topic=str(named), partition=index, code=error.code.name, error=error.message)
    count_error(PRODUCE_KEY, error.code)
    moved = isinstance(error, NotLeaderOrFollower)
    return PartitionProduced(
        index,
        error.code,
        error_message=error.message,
        current_leader=broker.current_leader(named, index) if moved else None,
        record_errors=error.record_errors if isinstance(error, InvalidRecord) else (),
    )


def _answer(work: _Work) -> Parts | None:
    request, topics = work.request, work.topics
    if request.message.acks == NO_ACKNOWLEDGEMENT:
        _raise_if_refused(topics)
        return None
    endpoints = _leaders_to_ask(work.broker, request, topics) if request.version >= FIRST_VERSION_WITH_LEADERS else ()
    header = request.response_header()
    throttle_ms = request.throttle_ms() if work.broker.quotas.are_on else 0
    return [encode_produce_response(request.version, header, topics, endpoints, throttle_ms=throttle_ms)]


def _leaders_to_ask(broker: Broker, request: Request, topics: Sequence[TopicProduced]) -> Sequence[NodeEndpoint]:
    """Return the addresses of the leaders named in refusals (KIP-951)."""
    leaders: set[int] = set()
    for _, partitions in topics:
        for produced in partitions:
            if produced.current_leader is not None:
                leaders.add(produced.current_leader.leader_id)
    return broker.node_endpoints(leaders, request.listener) if leaders else ()


def _raise_if_refused(topics: Sequence[TopicProduced]) -> None:
    """Close the connection of a producer that wants no answer but must hear that something went wrong."""
    for named, partitions in topics:
        for produced in partitions:
            if produced.error_code != ErrorCode.none:
                raise InvalidRequest(
                    f"produce with acks=0 to {named}-{produced.partition} failed: {produced.error_message}"
                )
