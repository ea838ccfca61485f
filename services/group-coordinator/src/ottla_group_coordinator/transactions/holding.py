"""Requests that come while the markers of the id's last transaction are on their way: held until it is complete.

A producer begins its next transaction as soon as its last one is decided, which is before the markers are written.
CONCURRENT_TRANSACTIONS would have it come again after a pause of its own, mostly 20 ms, where the markers take one or
two. So its request waits here, and has a turn of its own right behind the one that completes the transaction: both
are stored together. What is held is nothing but a request that comes a little later: it is handled as if it came
then, and after `hold_ms` it is refused as if it had been refused at once.

A producer id that came with a request is not taken from it a second time; it may have been given away meanwhile.
"""

from dataclasses import dataclass
from typing import Final

from ottla_group_coordinator.runtime.turn import Token, Turn
from ottla_group_coordinator.transactions.requests import TransactionRequest
from ottla_group_coordinator.transactions.shard_state import TransactionShardState

HELD_PER_ID_MAX: Final = 4
"""A producer has one such request; more come of producers that fence one another, or have given up waiting."""


@dataclass(frozen=True, slots=True)
class WaitIsOver:
    """A held request is to be answered: the transaction is complete, or it has not become so in time."""

    transactional_id: str
    token: Token

    def expire(self, shard: TransactionShardState, turn: Turn) -> None:
        """Answer it, whatever the answer is now."""
        held = shard.held[self.transactional_id]
        request = held.pop(self.token)
        if not held:
            del shard.held[self.transactional_id]
        request.may_wait = False
        turn.tells_what_is_stored = request.tells_what_is_stored
        shard.answer(request, turn)


def hold(shard: TransactionShardState, turn: Turn, transactional_id: str, request: TransactionRequest) -> bool:
    """Keep a request until the id's transaction is complete; return whether that is possible."""
    held = shard.held.get(transactional_id, {})
    if shard.settings.hold_ms <= 0 or len(held) >= HELD_PER_ID_MAX:
        return False
    shard.held[transactional_id] = {**held, request.token: request}
    shard.timers.set(WaitIsOver(transactional_id, request.token), turn.now_ms + shard.settings.hold_ms)
    return True


def let_go_on(shard: TransactionShardState, turn: Turn, transactional_id: str) -> None:
    """Have the id's held requests answered, in the order in which they came.

    Each in a turn of its own, since what a turn writes has to fit into one batch.
    """
    for token in shard.held.get(transactional_id, ()):
        shard.timers.set(WaitIsOver(transactional_id, token), turn.now_ms)
