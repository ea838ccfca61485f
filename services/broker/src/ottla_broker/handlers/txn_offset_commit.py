"""TxnOffsetCommit (key 28): a group's offsets as a part of a transaction (KIP-98, KIP-447).

The group's shard keeps them until the transaction ends. Before it takes the first ones of a transaction it answers
with a guard: the transaction's coordinator has to know the shard as a part. Older clients have added it by
AddOffsetsToTxn, for newer ones the broker does so (KIP-890). Then the shard is asked again with the guard. Where the
transaction has ended in between, or another coordinator owns the shard, it answers with another guard.

Source: Kafka's GroupCoordinatorService.commitTransactionalOffsets and `CoordinatorOperationExceptionHelper`.
"""

from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ottla_broker.access.refusals import answers_to
from ottla_broker.authorization import denial
from ottla_broker.broker import Broker, Request
from ottla_broker.group_requests import accepted, client_host, refusal
from ottla_broker.groups.errors import CoordinatorLoadInProgress, VerificationNeeded
from ottla_broker.groups.relay import answer_or_raise
from ottla_broker.groups.routing import check_transactions, shard_for
from ottla_broker.outcome import Parts
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.errors import CodedError, KafkaError, UnknownTopicOrPartition
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.transaction_responses import FIRST_IMPLICIT_TXN_OFFSET_COMMIT, TXN_OFFSET_COMMIT

TRIES_MAX: Final = 3
"""So often the shard is asked with a guard; one try does unless the transaction ends or the shard moves meanwhile."""

FIRST_WITH_ABORTABLE: Final = 4
"""The first version whose clients know TRANSACTION_ABORTABLE."""

_COMES_AGAIN: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
    }
)
"""What the transaction's coordinator may say that passes. Clients would take it for the group's coordinator's word,
and look that up again; they are told to come again as they are."""


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the group's shard take the offsets of topics that there are, and that the client may read."""
    message = request.message
    authorization = broker.authorization
    try:
        authorization.check(request, AclOperation.WRITE, ResourceKind.TRANSACTIONAL_ID, message.transactional_id)
        authorization.check(request, AclOperation.READ, ResourceKind.GROUP, message.group_id)
        check_transactions(broker.state)
        shard = shard_for(broker.state, message.group_id)
    except KafkaError as error:
        return request.respond(refusal(request, message, error))
    taken, refusals = _sifted(broker, request)
    if not refusals:
        try:
            answer = await _answer(broker, request, shard, request.frame)
        except KafkaError as error:
            return request.respond(refusal(request, message, error))
        return [accepted(answer)]
    response: Any = None
    if taken.topics:
        try:
            answer = await _answer(broker, request, shard, request.codec.encode_request(request.header, taken))
        except KafkaError as error:
            response = refusal(request, taken, error)
        else:
            response = request.codec.read_response(accepted(answer))
    return request.respond(_joined(request, response, refusals))


def _sifted(broker: Broker, request: Request) -> tuple[Any, list[Any]]:
    """Return the request without the partitions that are refused, and the answers to these."""
    message, state = request.message, broker.state
    taken: list[Any] = []
    refusals: list[Any] = []

    def refuse(topic: Any, error: KafkaError) -> None:
        refusals.extend(answers_to(TXN_OFFSET_COMMIT, request.codec.response_type, "topics", (topic,), error))

    unknown = UnknownTopicOrPartition("This server does not host this topic-partition.")
    for topic in message.topics:
        known = state.topics.get(topic.name)
        if not broker.authorization.permits(request, AclOperation.READ, ResourceKind.TOPIC, topic.name):
            refuse(topic, denial(ResourceKind.TOPIC))
            continue
        count = 0 if known is None else len(known.partitions)
        absent = tuple(each for each in topic.partitions if not 0 <= each.partition_index < count)
        if absent:
            refuse(replace(topic, partitions=absent), unknown)
            there = tuple(each for each in topic.partitions if 0 <= each.partition_index < count)
            if there:
                taken.append(replace(topic, partitions=there))
        else:
            taken.append(topic)
    return (replace(message, topics=tuple(taken)) if refusals else message), refusals


def _joined(request: Request, response: Any, refusals: list[Any]) -> Any:
    """Return the response with the refused partitions, each topic once."""
    answered = () if response is None else response.topics
    topics: dict[str, Any] = {}
    for topic in (*answered, *refusals):
        former = topics.get(topic.name)
        both = topic if former is None else replace(former, partitions=(*former.partitions, *topic.partitions))
        topics[topic.name] = both
    template = refusal(request, request.message, CodedError(ErrorCode.none, "")) if response is None else response
    return replace(template, topics=tuple(topics.values()))


async def _answer(broker: Broker, request: Request, shard: TopicPartition, frame: bytes) -> bytes:
    """Return the answer of the group's shard, which has been verified where it asks for that.

    Raises:
        KafkaError: the transaction does not have the shard, or somebody cannot be asked.
    """
    guard: int | None = None
    for _ in range(1 + TRIES_MAX):
        try:
            return await broker.groups.ask(
                shard, frame, client_host(request), answer_or_raise, verification_guard=guard
            )
        except VerificationNeeded as needed:
            guard = needed.guard
        await _verify(broker, request, shard)
    raise CoordinatorLoadInProgress(f"{shard} was verified {TRIES_MAX} times in vain")


async def _verify(broker: Broker, request: Request, shard: TopicPartition) -> None:
    """Have the transaction's coordinator add the group's shard, or confirm it.

    Raises:
        KafkaError: it is no part of the transaction.
    """
    message = request.message
    errors = await broker.transaction_coordinators.errors_of(
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        (shard,),
        adds=request.version >= FIRST_IMPLICIT_TXN_OFFSET_COMMIT,
    )
    code = errors.get(shard, ErrorCode.none)
    if code == ErrorCode.none:
        return
    if code == ErrorCode.producer_fenced:
        code = ErrorCode.invalid_producer_epoch
    elif code == ErrorCode.transaction_abortable and request.version < FIRST_WITH_ABORTABLE:
        code = ErrorCode.invalid_txn_state
    elif code in _COMES_AGAIN:
        raise CoordinatorLoadInProgress(f"the transaction's coordinator cannot be asked: {code.name.upper()}")
    elif code == ErrorCode.concurrent_transactions and request.version < FIRST_IMPLICIT_TXN_OFFSET_COMMIT:
        raise CoordinatorLoadInProgress("the producer's last transaction still ends")
    raise CodedError(code, f"{shard} is no part of the transaction: {code.name.upper()}")
