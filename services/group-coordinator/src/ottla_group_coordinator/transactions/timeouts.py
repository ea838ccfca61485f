"""Aborts transactions whose time is up: the producer is fenced by the next epoch.

The time runs by the shard's deadlines, which stand still while nobody can be answered; so it begins when the
transaction does, and after a load goes on with what was left when the shard's newest record was written. As in
Kafka, open transactions are looked at every `transaction.abort.timed.out.transaction.cleanup.interval.ms`. Those of a
two-phase commit have no time (KIP-939).
"""

from dataclasses import dataclass

from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.counts import Ending
from ottla_group_coordinator.transactions.ending import end, needs_producer_id
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction import NO_PRODUCER_ID
from ottla_group_coordinator.transactions.transaction_state import TransactionState


@dataclass(frozen=True, slots=True)
class CheckTimeouts:
    """It is time to look for transactions whose time is up."""

    def expire(self, shard: TransactionShardState, turn: Turn) -> None:
        """Abort one; another turn aborts the next."""
        while not turn.records and (transactional_id := shard.timeouts.pop_due(turn.now_ms - 1)) is not None:
            _abort(shard, turn, transactional_id)
        next_ms = turn.now_ms if turn.records else turn.now_ms + shard.settings.abort_check_ms
        shard.timers.set(self, next_ms)


def _abort(shard: TransactionShardState, turn: Turn, transactional_id: str) -> None:
    transaction = shard.transactions.get(transactional_id)
    # Looked at again, as an EndTxn may have come first.
    if transaction is None or transaction.state is not TransactionState.ONGOING or transaction.is_two_phase:
        return
    version = shard.own_ending_version
    end(
        shard,
        turn,
        transactional_id,
        ending=Ending.TIMEOUT,
        client_version=version,
        fresh_producer_id=shard.take_spare_id() if needs_producer_id(transaction, version) else NO_PRODUCER_ID,
    )


def on_loaded(shard: TransactionShardState, turn: Turn) -> None:
    """Let the time of open transactions go on."""
    for transactional_id, transaction in shard.transactions.items():
        if transaction.state is TransactionState.ONGOING and not transaction.is_two_phase:
            left_ms = max(0, transaction.start_ms + transaction.timeout_ms - turn.timestamp_ms)
            shard.timeouts.set(transactional_id, turn.now_ms + min(left_ms, transaction.timeout_ms))
    shard.timers.set(CheckTimeouts(), turn.now_ms + shard.settings.abort_check_ms)
