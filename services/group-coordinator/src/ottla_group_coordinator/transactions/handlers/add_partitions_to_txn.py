"""AddPartitionsToTxn: partitions become a part of the transaction, which begins with the first ones.

Up to version 3 clients send it, about one transaction. Since version 4 brokers do, about several: to add what a
client produces to, or only to see whether it was added (KIP-890). Each partition has its own result; those of one
transaction are added together or not at all.

Source: Kafka's KafkaApis and TransactionCoordinator.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnPartitionResult as PartitionResultV3
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse as ResponseV3
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnTopicResult as TopicResultV3
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTransaction
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.errors import ErrorCode

from ottla_core.errors import InvalidRequest, KafkaError
from ottla_core.wire.conversion import message_of
from ottla_core.wire.transaction_responses import FIRST_BATCHED_ADD_PARTITIONS
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.adding import add_partitions, check_verifiable
from ottla_group_coordinator.transactions.errors import EndUnderWay
from ottla_group_coordinator.transactions.requests import TransactionRequest
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction import EPOCH_BUMP_VERSION, Identity

CodeOf = Callable[[str, int], ErrorCode]
"""Returns the result of a partition."""


def handle(shard: TransactionShardState, request: TransactionRequest, turn: Turn) -> None:
    """Answer an AddPartitionsToTxn."""
    message = request.message
    if request.api_version >= FIRST_BATCHED_ADD_PARTITIONS:
        transactions = request.newest().transactions
        # Those of other transactions in the request would have to wait along.
        may_wait = request.may_wait and len(transactions) == 1
        results = tuple(_result(shard, turn, each, may_wait=may_wait) for each in transactions)
        response = message_of(AddPartitionsToTxnResponse, results_by_transaction=results)
        turn.answer(request.token, response)
        return
    if not message.v3_and_below_transactional_id:
        raise InvalidRequest("a transaction has a transactional id")
    asked = Identity(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
    partitions = _partitions(message.v3_and_below_topics)
    add_partitions(shard, turn, message.v3_and_below_transactional_id, asked, partitions, client_version=0)
    topics = tuple(
        message_of(
            TopicResultV3,
            name=topic.name,
            results_by_partition=tuple(
                message_of(PartitionResultV3, partition_index=index, partition_error_code=ErrorCode.none)
                for index in topic.partitions
            ),
        )
        for topic in message.v3_and_below_topics
    )
    turn.answer(request.token, message_of(ResponseV3, results_by_topic_v3_and_below=topics))


def _result(
    shard: TransactionShardState, turn: Turn, asked: AddPartitionsToTxnTransaction, *, may_wait: bool
) -> AddPartitionsToTxnResult:
    try:
        code_of = _verify(shard, asked) if asked.verify_only else _add(shard, turn, asked)
    except KafkaError as error:
        if may_wait and isinstance(error, EndUnderWay):
            raise
        code = error.code
        code_of = lambda _topic, _index: code  # noqa: E731
    return AddPartitionsToTxnResult(
        transactional_id=asked.transactional_id,
        topic_results=tuple(
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=code_of(topic.name, index)
                    )
                    for index in topic.partitions
                ),
            )
            for topic in asked.topics
        ),
    )


def _add(shard: TransactionShardState, turn: Turn, asked: AddPartitionsToTxnTransaction) -> CodeOf:
    if not asked.transactional_id:
        raise InvalidRequest("a transaction has a transactional id")
    identity = Identity(asked.producer_id, asked.producer_epoch)
    add_partitions(
        shard,
        turn,
        asked.transactional_id,
        identity,
        _partitions(asked.topics),
        client_version=EPOCH_BUMP_VERSION,
    )
    return lambda _topic, _index: ErrorCode.none


def _verify(shard: TransactionShardState, asked: AddPartitionsToTxnTransaction) -> CodeOf:
    if not asked.transactional_id:
        raise InvalidRequest("a transaction has a transactional id")
    identity = Identity(asked.producer_id, asked.producer_epoch)
    transaction = check_verifiable(shard, asked.transactional_id, identity)

    def code_of(topic: str, index: int) -> ErrorCode:
        return ErrorCode.none if transaction.has(topic, index) else ErrorCode.transaction_abortable

    return code_of


def _partitions(topics: Iterable[Any]) -> Mapping[str, set[int]]:
    found: dict[str, set[int]] = {}
    for topic in topics:
        found.setdefault(topic.name, set()).update(topic.partitions)
    return found
