"""One shard: the transactional ids kept in one partition of ``__transaction_state``, as a state machine.

`TransactionShard` fulfils `runtime/state_machine.py`; here are the tables of what handles which request. Whatever
changes is written, and answered when it is stored. What waits for the partitions of a transaction is no request: the
client is answered once the end is stored, and `MarkersWritten` comes as a request of the process itself.
"""

from collections.abc import Callable, Mapping, Sequence

from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import KafkaError
from ottla_core.wire import transaction_responses as api
from ottla_core.wire.group_responses import error_response
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions import expiry, timeouts
from ottla_group_coordinator.transactions.ending import complete_if_meant, markers_of
from ottla_group_coordinator.transactions.errors import EndUnderWay
from ottla_group_coordinator.transactions.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
)
from ottla_group_coordinator.transactions.holding import hold, let_go_on
from ottla_group_coordinator.transactions.requests import MarkersWritten, NumberWanted, TransactionRequest
from ottla_group_coordinator.transactions.shard_state import NUMBER_MAX, TransactionShardState
from ottla_group_coordinator.transactions.transaction_state import PREPARED


class TransactionShard(TransactionShardState):
    """One shard: its state, and what happens to it. See `TransactionShardState` for the arguments and attributes."""

    def handle(self, request: "TransactionRequest | MarkersWritten | NumberWanted", now_ms: int) -> Turn:
        """Take a request; it is answered in this turn, or when a transaction is complete that it waits for."""
        turn = self._turn(now_ms)
        if isinstance(request, MarkersWritten):
            is_complete = complete_if_meant(self, turn, request.message)
            turn.answer(request.token, is_complete)
            if is_complete:
                let_go_on(self, turn, request.message.transactional_id)
        elif isinstance(request, NumberWanted):
            if request.message > self.ownership_number:
                self.raise_number(turn, request.message)
            turn.answer(request.token, self.ownership_number)
        else:
            if request.fresh_producer_id is not None:
                self.spare_producer_id = request.fresh_producer_id
            self.answer(request, turn)
        return turn

    def answer(self, request: TransactionRequest, turn: Turn) -> None:
        """Handle a client's request: answer it in this turn, or hold it for a later one."""
        try:
            HANDLERS[request.api_key](self, request, turn)
        except KafkaError as error:
            assert not turn.records, "a request is refused before anything is written"
            if isinstance(error, EndUnderWay) and request.may_wait:
                if not hold(self, turn, error.transactional_id, request):
                    request.may_wait = False
                    self.answer(request, turn)
                return
            refusal = error_response(request.api_key, request.api_version, request.message, error)
            turn.answer(request.token, refusal)

    def advance(self, now_ms: int) -> Turn:
        """Do what is due at `now_ms`, up to the first timer that writes."""
        turn = self._turn(now_ms)
        while not turn.records and (timer := self.timers.pop_due(now_ms)) is not None:
            timer.expire(self, turn)
        return turn

    def on_cluster_state(self, state: ClusterState, now_ms: int) -> Turn:
        """Take over a newer cluster state; `AddOffsetsToTxn` and the records' version go by it."""
        self.cluster_state = state
        return self._turn(now_ms)

    def loaded(self, now_ms: int) -> Turn:
        """Begin to serve after the last `replay`: with a number of our own, send the markers that may lack."""
        turn = self._turn(now_ms)
        if self.ownership_number < NUMBER_MAX:  # else there is none of our own, and former markers are not told apart
            self.raise_number(turn, self.ownership_number + 1)
        for begin in ON_LOADED:
            begin(self, turn)
        for transactional_id, transaction in self.transactions.items():
            if transaction.state in PREPARED:
                turn.effects.append(markers_of(self, transactional_id))
        return turn

    def _turn(self, now_ms: int) -> Turn:
        return Turn(now_ms, now_ms + self.timestamps_ahead_ms)


Handler = Callable[[TransactionShardState, TransactionRequest, Turn], None]
Hook = Callable[[TransactionShardState, Turn], None]

HANDLERS: Mapping[int, Handler] = {
    api.INIT_PRODUCER_ID: init_producer_id.handle,
    api.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn.handle,
    api.ADD_OFFSETS_TO_TXN: add_offsets_to_txn.handle,
    api.END_TXN: end_txn.handle,
    api.LIST_TRANSACTIONS: list_transactions.handle,
    api.DESCRIBE_TRANSACTIONS: describe_transactions.handle,
}
"""What takes the requests of each API; the list of what a shard can be asked by clients."""

ON_LOADED: Sequence[Hook] = (timeouts.on_loaded, expiry.on_loaded)
"""What happens when all records have been replayed."""
