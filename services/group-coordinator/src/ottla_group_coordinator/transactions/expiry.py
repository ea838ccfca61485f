"""Forgets transactional ids of which nothing was heard for `transactional.id.expiration.ms`.

All ids are looked through from time to time. That may take many turns: in each, so many are looked at and so many
tombstones written as keep it short.

Source: `TransactionStateManager.removeExpiredTransactionalIds` in Kafka.
"""

from dataclasses import dataclass

from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction_state import AT_REST

LOOKED_AT_PER_TURN_MAX = 5_000
TOMBSTONES_PER_TURN_MAX = 500

NEXT_TURN_MS = 1
"""After this, the work goes on in another turn, so that others have theirs in between."""


@dataclass(frozen=True, slots=True)
class ForgetExpired:
    """The next part of a search is due, or the next search."""

    def expire(self, shard: TransactionShardState, turn: Turn) -> None:
        """Look at some ids."""
        ids = shard.expiring_ids
        if not ids:
            ids.extend(shard.transactions)
        oldest_ms = turn.timestamp_ms - shard.settings.expiration_ms
        looked_at = 0
        while ids and looked_at < LOOKED_AT_PER_TURN_MAX and len(turn.records) < TOMBSTONES_PER_TURN_MAX:
            looked_at += 1
            transactional_id = ids.pop()
            transaction = shard.transactions.get(transactional_id)
            if transaction is not None and transaction.state in AT_REST and transaction.updated_ms <= oldest_ms:
                shard.forget(turn, transactional_id)
        pause_ms = NEXT_TURN_MS if ids else shard.settings.expiration_check_ms
        shard.timers.set(self, turn.now_ms + pause_ms)


def on_loaded(shard: TransactionShardState, turn: Turn) -> None:
    """Search for the first time after as long as between two searches."""
    shard.timers.set(ForgetExpired(), turn.now_ms + shard.settings.expiration_check_ms)
