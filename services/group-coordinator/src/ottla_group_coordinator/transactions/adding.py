"""Adding partitions to a transaction, and seeing whether they were added.

Source: Kafka's TransactionCoordinator, `handleAddPartitionsToTransaction` and `handleVerifyPartitionsInTransaction`.
"""

from collections.abc import Collection, Mapping

from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.errors import (
    ConcurrentTransactions,
    EndUnderWay,
    InvalidProducerIdMapping,
    ProducerFenced,
    TransactionTooLarge,
)
from ottla_group_coordinator.transactions.records import record_bytes_max
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction import Identity, Transaction, with_partitions
from ottla_group_coordinator.transactions.transaction_state import PREPARED, TransactionState


def add_partitions(
    shard: TransactionShardState,
    turn: Turn,
    transactional_id: str,
    asked: Identity,
    partitions: Mapping[str, Collection[int]],
    *,
    client_version: int,
) -> None:
    """Add partitions to a producer's transaction, of which some or all may be there already.

    Raises:
        InvalidProducerIdMapping, ProducerFenced: it is not the producer of this id.
        EndUnderWay: the last transaction is not complete.
        TransactionTooLarge: the transaction would have too many partitions.
    """
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        raise InvalidProducerIdMapping
    # First of all: the producer may know the identity already that is its own once the last transaction is complete.
    if transaction.state in PREPARED:
        raise EndUnderWay(transactional_id)
    _check_identity(transaction, asked)
    if transaction.client_identity != transaction.identity:
        raise ProducerFenced("the transaction is prepared, and kept for its producer to end it")
    if transaction.state is TransactionState.ONGOING and all(
        transaction.has(topic, index) for topic, indexes in partitions.items() for index in indexes
    ):
        return
    after = with_partitions(transaction, partitions, turn.timestamp_ms, client_version)
    if record_bytes_max(transactional_id, after.partitions) > shard.settings.batch_bytes_max:
        raise TransactionTooLarge(f"the transaction would have {sum(map(len, after.partitions.values()))} partitions")
    shard.write(turn, transactional_id, after)


def check_verifiable(shard: TransactionShardState, transactional_id: str, asked: Identity) -> Transaction:
    """Return the transaction of a producer, to see what partitions it has.

    Raises:
        InvalidProducerIdMapping, ProducerFenced: it is not the producer of this id.
        ConcurrentTransactions: its transaction is decided.
    """
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        raise InvalidProducerIdMapping
    _check_identity(transaction, asked)
    if transaction.state in PREPARED:
        raise ConcurrentTransactions
    return transaction


def _check_identity(transaction: Transaction, asked: Identity) -> None:
    if asked.producer_id != transaction.producer_id:
        raise InvalidProducerIdMapping
    if asked.epoch != transaction.producer_epoch:
        raise ProducerFenced
