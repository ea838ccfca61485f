"""EndTxn: commit or abort; answered when that is stored, while the markers are still on their way.

From version 5 on the answer has what the producer writes under from then on (KIP-890).
"""

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode

from ottla_core.errors import InvalidRequest
from ottla_core.wire.conversion import message_of
from ottla_core.wire.transaction_responses import FIRST_EPOCH_BUMPING_END_TXN
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.counts import Ending
from ottla_group_coordinator.transactions.ending import end, must_end, needs_producer_id
from ottla_group_coordinator.transactions.errors import InvalidProducerIdMapping
from ottla_group_coordinator.transactions.requests import TransactionRequest
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction import EPOCH_BUMP_VERSION, NO_PRODUCER_ID, Identity


def handle(shard: TransactionShardState, request: TransactionRequest, turn: Turn) -> None:
    """Answer an EndTxn."""
    message: EndTxnRequest = request.newest()
    if not message.transactional_id:
        raise InvalidRequest("a transaction has a transactional id")
    transaction = shard.transactions.get(message.transactional_id)
    if transaction is None:
        raise InvalidProducerIdMapping
    version = EPOCH_BUMP_VERSION if request.api_version >= FIRST_EPOCH_BUMPING_END_TXN else 0
    asked = Identity(message.producer_id, message.producer_epoch)
    after = transaction.identity
    if must_end(transaction, asked, is_commit=message.committed, client_version=version):
        after = end(
            shard,
            turn,
            message.transactional_id,
            ending=Ending.COMMIT if message.committed else Ending.ABORT,
            client_version=version,
            fresh_producer_id=shard.take_spare_id() if needs_producer_id(transaction, version) else NO_PRODUCER_ID,
        )
    response = message_of(
        EndTxnResponse, error_code=ErrorCode.none, producer_id=after.producer_id, producer_epoch=after.epoch
    )
    turn.answer(request.token, response)
