"""The time at which a transaction began is told to the millisecond."""

import io

from kio.serial import entity_reader, entity_writer

from ottla_core.wire.conversion import message_of
from ottla_core.wire.described_transactions import TransactionState
from ottla_group_coordinator.transactions.handlers.describe_transactions import _time


def test_a_transaction_may_begin_within_a_second() -> None:
    state = message_of(TransactionState, transactional_id="transfer", transaction_start_time=_time(1_700_000_000_197))
    buffer = io.BytesIO()
    entity_writer(TransactionState)(buffer, state)
    (told, _) = entity_reader(TransactionState)(memoryview(buffer.getvalue()), 0)
    assert told.transaction_start_time is not None
    assert round(told.transaction_start_time.timestamp() * 1000) == 1_700_000_000_197
