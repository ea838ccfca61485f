"""AddOffsetsToTxn: the partition of __consumer_offsets that keeps a group becomes a part of the transaction.

Clients of transaction version 2 do not send it, as TxnOffsetCommit adds the partition.
"""

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse
from kio.schema.errors import ErrorCode

from ottla_core.errors import InvalidRequest
from ottla_core.shards import GROUP_TOPIC, shard_of
from ottla_core.wire.conversion import message_of
from ottla_group_coordinator.runtime.errors import CoordinatorLoadInProgress
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.adding import add_partitions
from ottla_group_coordinator.transactions.requests import TransactionRequest
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction import Identity


def handle(shard: TransactionShardState, request: TransactionRequest, turn: Turn) -> None:
    """Answer an AddOffsetsToTxn."""
    message: AddOffsetsToTxnRequest = request.newest()
    if not message.transactional_id:
        raise InvalidRequest("a transaction has a transactional id")
    groups = shard.cluster_state.topics.get(GROUP_TOPIC)
    if groups is None:
        raise CoordinatorLoadInProgress(f"there is no topic {GROUP_TOPIC} yet")
    topic, index = shard_of(message.group_id, len(groups.partitions))
    asked = Identity(message.producer_id, message.producer_epoch)
    add_partitions(shard, turn, message.transactional_id, asked, {topic: (index,)}, client_version=0)
    turn.answer(request.token, message_of(AddOffsetsToTxnResponse, error_code=ErrorCode.none))
