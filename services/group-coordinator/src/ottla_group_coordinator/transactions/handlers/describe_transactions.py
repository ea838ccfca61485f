"""DescribeTransactions: what is known of some transactional ids.

Source: `TransactionCoordinator.handleDescribeTransactions` in Kafka.
"""

from datetime import UTC, datetime, timedelta

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.errors import ErrorCode
from kio.schema.types import TransactionalId
from kio.static.primitive import TZAware

from ottla_core.wire.conversion import message_of
from ottla_core.wire.described_transactions import DescribeTransactionsResponse, TransactionState
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.requests import TransactionRequest
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction import NO_TIMESTAMP

EPOCH = TZAware.parse(datetime.fromtimestamp(0, UTC))


def handle(shard: TransactionShardState, request: TransactionRequest, turn: Turn) -> None:
    """Answer a DescribeTransactions."""
    message: DescribeTransactionsRequest = request.newest()
    states = tuple(_describe(shard, transactional_id) for transactional_id in message.transactional_ids)
    turn.answer(request.token, message_of(DescribeTransactionsResponse, transaction_states=states))


def _describe(shard: TransactionShardState, transactional_id: TransactionalId) -> TransactionState:
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        code = ErrorCode.transactional_id_not_found if transactional_id else ErrorCode.invalid_request
        return message_of(
            TransactionState, transactional_id=transactional_id, error_code=code, transaction_start_time=EPOCH
        )
    return message_of(
        TransactionState,
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout=timedelta(milliseconds=transaction.timeout_ms),
        transaction_start_time=None if transaction.start_ms == NO_TIMESTAMP else _time(transaction.start_ms),
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=tuple(
            message_of(TopicData, topic=topic, partitions=indexes)
            for topic, indexes in transaction.partitions.items()
        ),
    )


def _time(at_ms: int) -> TZAware:
    return EPOCH + timedelta(milliseconds=at_ms)  # not parsed: that takes whole seconds only
