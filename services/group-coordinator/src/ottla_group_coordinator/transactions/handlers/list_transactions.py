"""ListTransactions: the transactional ids of this shard, by state, producer id, age and pattern.

Source: `TransactionStateManager.listTransactionStates` in Kafka; KIP-994 and KIP-1152 for the last two filters.
"""

from typing import Protocol, cast

import re2
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse, TransactionState
from kio.schema.types import ProducerId, TransactionalId

from ottla_core.wire.conversion import message_of
from ottla_group_coordinator.errors import InvalidRegularExpression
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.requests import TransactionRequest
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction import Transaction
from ottla_group_coordinator.transactions.transaction_state import STATES_BY_NAME

PATTERN_BYTES_MAX = 1024 * 1024
"""Memory that a compiled pattern may take."""


class Pattern(Protocol):
    """A compiled regular expression of RE2's syntax."""

    def fullmatch(self, text: str) -> object:
        """Return something true if the whole text matches."""


def handle(shard: TransactionShardState, request: TransactionRequest, turn: Turn) -> None:
    """Answer with the ids that all filters let through; one that is empty lets all through.

    Names of states that do not exist are told. An open-ended age counts from the beginning of the last transaction.
    """
    message: ListTransactionsRequest = request.newest()
    pattern = _compiled(message.transactional_id_pattern)
    states = {STATES_BY_NAME[name] for name in message.state_filters if name in STATES_BY_NAME}
    producer_ids = set(message.producer_id_filters)

    def is_listed(transactional_id: str, transaction: Transaction) -> bool:
        return (
            (not producer_ids or transaction.producer_id in producer_ids)
            and (not message.state_filters or transaction.state in states)
            and (message.duration_filter < 0 or turn.timestamp_ms - transaction.start_ms > message.duration_filter)
            and (pattern is None or bool(pattern.fullmatch(transactional_id)))
        )

    listed = tuple(
        TransactionState(
            transactional_id=TransactionalId(transactional_id),
            producer_id=ProducerId(transaction.producer_id),
            transaction_state=transaction.state.value,
        )
        for transactional_id, transaction in shard.transactions.items()
        if is_listed(transactional_id, transaction)
    )
    response = message_of(
        ListTransactionsResponse,
        error_code=ErrorCode.none,
        unknown_state_filters=tuple(name for name in message.state_filters if name not in STATES_BY_NAME),
        transaction_states=listed,
    )
    turn.answer(request.token, response)


def _compiled(pattern: str | None) -> Pattern | None:
    if not pattern:
        return None
    options = re2.Options()
    options.max_mem = PATTERN_BYTES_MAX
    options.log_errors = False
    try:
        return cast("Pattern", re2.compile(pattern, options))
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidRegularExpression(f"the pattern {pattern!r} does not compile: {error}") from None
