"""AddPartitionsToTxn (key 24): make partitions a part of a transaction, or ask whether they are.

Up to version 3 clients ask it of one transaction, and all partitions are added or none. This broker takes note of
those that it leads, so that the coordinator need not confirm them when the first batches come. From version 4 on
brokers ask it of several (KIP-890); those of this cluster do so over the streams to coordinators.

Source: `KafkaApis.handleAddPartitionsToTxnRequest`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_broker.authorization import denial
from ottla_broker.broker import Broker, Request
from ottla_broker.group_requests import accepted, client_host, refusal, relay_transactional
from ottla_broker.groups.errors import NotCoordinator
from ottla_broker.groups.relay import answer_or_raise
from ottla_broker.groups.routing import check_transactions, transaction_shard_for
from ottla_broker.log.producers.verification import VerificationGuard
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Outcome, Parts
from ottla_broker.transactions.early_guards import take_early_guards
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import KafkaError, MessageTooLarge
from ottla_core.shards import INTERNAL_TOPICS, TRANSACTION_TOPIC
from ottla_core.slices import rest
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.transaction_responses import FIRST_BATCHED_ADD_PARTITIONS

ASKED_AT_ONCE_MAX = 50
"""Transactions of one request that coordinators are asked about at a time: some milliseconds of work."""

OLD_RESULTS = "results_by_topic_v3_and_below"
RESULTS = "results_by_transaction"


def handle(broker: Broker, request: Request) -> Outcome:
    """Pass on what a client may add and what exists; if one partition must not be added, none is."""
    if request.version >= FIRST_BATCHED_ADD_PARTITIONS:
        return _handle_several(broker, request)
    message = request.message
    authorization = broker.authorization
    transactional_id = message.v3_and_below_transactional_id
    try:
        authorization.check(request, AclOperation.WRITE, ResourceKind.TRANSACTIONAL_ID, transactional_id)
        check_transactions(broker.state)
    except KafkaError as error:
        return request.respond(refusal(request, message, error))

    def may_write(topic: str) -> bool:
        return topic not in INTERNAL_TOPICS and authorization.permits(
            request, AclOperation.WRITE, ResourceKind.TOPIC, topic
        )

    denied = {topic.name for topic in message.v3_and_below_topics if not may_write(topic.name)}
    codes = _refusals(broker.state, message.v3_and_below_topics, denied)
    if codes:
        topic_type = item_type(request.codec.response_type, OLD_RESULTS)
        results = _topic_results(topic_type, message.v3_and_below_topics, codes)
        return request.respond(message_of(request.codec.response_type, **{OLD_RESULTS: results}))
    return relay_transactional(broker, request, transactional_id, on_answer=_confirming(broker, request))


def _confirming(broker: Broker, request: Request) -> Callable[[bytes], None]:
    """Take guards for the partitions that this broker leads; return what confirms those that the coordinator adds."""
    message = request.message
    names = [TopicPartition(topic.name, index) for topic in message.v3_and_below_topics for index in topic.partitions]
    guards = take_early_guards(
        broker.partitions, message.v3_and_below_producer_id, message.v3_and_below_producer_epoch, names
    )

    def stands(item: tuple[TopicPartition, VerificationGuard]) -> bool:
        name, guard = item
        with contextlib.suppress(KafkaError):
            return broker.partitions.leader_of(*name).stands(guard)
        return False

    def confirm(answer: bytes) -> None:
        if not any(map(stands, guards.items())):
            return  # as where markers of the last transaction have come in between
        for topic in request.codec.read_response(answer).results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                guard = guards.get(TopicPartition(topic.name, each.partition_index))
                if guard is not None and each.partition_error_code == ErrorCode.none:
                    guard.is_confirmed = True

    return confirm


def _refusals(state: ClusterState, topics: Sequence[Any], denied: set[str]) -> Mapping[TopicPartition, ErrorCode]:
    """Return an error for every partition if one must not be added; nothing if all may be."""
    codes: dict[TopicPartition, ErrorCode] = {}
    are_all_good = True
    for topic in topics:
        known = state.topics.get(topic.name)
        for index in topic.partitions:
            if topic.name in denied:
                code = denial(ResourceKind.TOPIC).code
            elif known is None or not 0 <= index < len(known.partitions):
                code = ErrorCode.unknown_topic_or_partition
            elif known.partitions[index].link is not None:
                code = ErrorCode.policy_violation  # it follows another cluster, and takes no writes
            else:
                codes[TopicPartition(topic.name, index)] = ErrorCode.operation_not_attempted
                continue
            codes[TopicPartition(topic.name, index)] = code
            are_all_good = False
    return {} if are_all_good else codes


def _topic_results(
    topic_type: type[Entity], topics: Sequence[Any], codes: Mapping[TopicPartition, ErrorCode]
) -> tuple[Any, ...]:
    partition_type = item_type(topic_type, "results_by_partition")
    return tuple(
        message_of(
            topic_type,
            name=topic.name,
            results_by_partition=tuple(
                message_of(
                    partition_type,
                    partition_index=index,
                    partition_error_code=codes[TopicPartition(topic.name, index)],
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )


# Several transactions


def _handle_several(broker: Broker, request: Request) -> Outcome:
    kind = ResourceKind.CLUSTER
    if not broker.authorization.permits_on_cluster(request, AclOperation.CLUSTER_ACTION):
        return request.respond(refusal(request, request.message, denial(kind)))
    try:
        check_transactions(broker.state)
    except KafkaError as error:
        return request.respond(refusal(request, request.message, error))
    return _ask_several(broker, request)


async def _ask_several(broker: Broker, request: Request) -> Parts:
    """Ask the coordinator of each transaction; what a coordinator does not answer is refused alone."""
    transactions = list({each.transactional_id: each for each in request.message.transactions}.values())
    results: list[Any] = []
    for start in range(0, len(transactions), ASKED_AT_ONCE_MAX):
        some = transactions[start : start + ASKED_AT_ONCE_MAX]
        results += await asyncio.gather(*(_result(broker, request, each) for each in some))
        await rest()
    response = message_of(request.codec.response_type, **{RESULTS: tuple(results)})
    return await respond_in_thread(request, response, len(results))


async def _result(broker: Broker, request: Request, transaction: Any) -> Any:
    result_type = item_type(request.codec.response_type, RESULTS)
    topic_type = item_type(result_type, "topic_results")
    codes = _refusals(broker.state, transaction.topics, {TRANSACTION_TOPIC})
    if not codes:
        part = replace(request.message, transactions=(transaction,))
        frame = request.codec.encode_request(request.header, part)
        try:
            shard = transaction_shard_for(broker.state, transaction.transactional_id)
            answer = await broker.groups.ask(shard, frame, client_host(request), answer_or_raise)
            response = request.codec.read_response(accepted(answer))
            if response.error_code == ErrorCode.none and response.results_by_transaction:
                return response.results_by_transaction[0]
            code = response.error_code or ErrorCode.unknown_server_error
        except (NotCoordinator, MessageTooLarge) as error:
            code = error.code
        codes = {
            TopicPartition(topic.name, index): code for topic in transaction.topics for index in topic.partitions
        }
    return message_of(
        result_type,
        transactional_id=transaction.transactional_id,
        topic_results=_topic_results(topic_type, transaction.topics, codes),
    )
