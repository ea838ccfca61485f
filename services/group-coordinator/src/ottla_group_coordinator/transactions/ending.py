"""Ending a transaction: what may end it, and what follows when it is decided.

The end is stored first, in a state that nothing but its completion can follow. Then the markers are sent
(`effects.py`), and when every partition has its own the transaction is complete. So whatever fails in between,
the next owner of the shard finds how the transaction ends, and sends the markers again.

What a client may ask for, in transaction version 2 (KIP-890), where an end raises the epoch. *Current* means that the
client names the identity that the coordinator knows, *repeated* the one before, as when an answer got lost:

================  ============================  ============================
state             abort                         commit
================  ============================  ============================
Ongoing           current: ends it              current: ends it
Empty             current: raises the epoch     current: INVALID_TXN_STATE
CompleteAbort     current: raises the epoch     current: INVALID_TXN_STATE
                  repeated: done already        repeated: PRODUCER_FENCED
CompleteCommit    current: raises the epoch     current: INVALID_TXN_STATE
                  repeated: INVALID_TXN_STATE   repeated: done already
Prepare…          CONCURRENT_TRANSACTIONS       CONCURRENT_TRANSACTIONS
================  ============================  ============================

All else is PRODUCER_FENCED. A repeated commit of an aborted transaction was overtaken by a time-out; the code is what
clients recover from (KAFKA-20785; Kafka 4.2 says INVALID_TXN_STATE, upon which they give up).

Source: `TransactionCoordinator.endTransaction` in Kafka.
"""

from ottla_group_coordinator.runtime.errors import CoordinatorNotAvailable
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.counts import Ending
from ottla_group_coordinator.transactions.effects import SendMarkers
from ottla_group_coordinator.transactions.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from ottla_group_coordinator.transactions.requests import EndOfTransaction
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    LAST_USABLE_EPOCH,
    NO_PRODUCER_ID,
    Identity,
    Transaction,
    completed,
    prepared,
)
from ottla_group_coordinator.transactions.transaction_state import COMPLETE, PREPARED, TransactionState


def must_end(transaction: Transaction, asked: Identity, *, is_commit: bool, client_version: int) -> bool:
    """Return whether a client's EndTxn ends a transaction, or has done so before.

    Raises:
        ConcurrentTransactions: the transaction is decided and not complete.
        InvalidProducerIdMapping: the transactional id has another producer id.
        ProducerFenced: the producer has another epoch.
        InvalidTxnState: the state does not allow it.
    """
    if client_version >= EPOCH_BUMP_VERSION:
        return _must_end_raising_epochs(transaction, asked, is_commit=is_commit)
    return _must_end(transaction, asked, is_commit=is_commit)


def _must_end(transaction: Transaction, asked: Identity, *, is_commit: bool) -> bool:
    """Decide as before transaction version 2, where the producer's epoch is the same before and after."""
    known = transaction.client_identity
    if asked.producer_id != known.producer_id:
        raise InvalidProducerIdMapping
    if asked.epoch != known.epoch:
        raise ProducerFenced
    if transaction.state in PREPARED:
        raise ConcurrentTransactions
    if transaction.state is TransactionState.ONGOING:
        return True
    if transaction.state is _complete(is_commit):
        return False
    raise InvalidTxnState(f"the transaction is {transaction.state.value}")


def _must_end_raising_epochs(transaction: Transaction, asked: Identity, *, is_commit: bool) -> bool:
    """Decide as from transaction version 2 on."""
    # First of all: the client may know the identity already that is the transactional id's once it is complete.
    if transaction.state in PREPARED:
        raise ConcurrentTransactions
    known = transaction.client_identity
    is_repeated_rotation = (
        asked == (transaction.previous_producer_id, LAST_USABLE_EPOCH) and transaction.producer_epoch == 0
    )
    if asked.producer_id != known.producer_id and not is_repeated_rotation:
        raise InvalidProducerIdMapping
    is_complete = transaction.state in COMPLETE
    is_repeated = is_complete and (is_repeated_rotation or asked.epoch + 1 == known.epoch)
    if not is_repeated and asked != known:
        raise ProducerFenced
    if not is_repeated:
        if transaction.state is not TransactionState.ONGOING and is_commit:
            raise InvalidTxnState(f"the transaction is {transaction.state.value}, there is nothing to commit")
        return True
    if transaction.state is not _complete(is_commit):
        raise ProducerFenced if is_commit else InvalidTxnState(f"the transaction is {transaction.state.value}")
    # No producer writes under the last epoch. A time-out has taken it, when there was no producer id to go on with.
    if known.epoch == EPOCH_MAX:
        raise ProducerFenced
    return False


def _complete(is_commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT


def end(
    shard: TransactionShardState,
    turn: Turn,
    transactional_id: str,
    *,
    ending: Ending,
    client_version: int,
    fresh_producer_id: int,
) -> Identity:
    """Decide the end of a transaction and have its markers sent; return the producer's identity after it.

    What the last argument is for, `prepared` says.

    Raises:
        CoordinatorNotAvailable: a client asks for it, and has neither an epoch nor a producer id to go on with.
    """
    transaction = shard.transactions[transactional_id]
    is_fence = ending in {Ending.FENCED, Ending.TIMEOUT}
    if not is_fence and fresh_producer_id == NO_PRODUCER_ID and needs_producer_id(transaction, client_version):
        raise CoordinatorNotAvailable("no producer id to go on with came along")
    is_commit = ending is Ending.COMMIT
    decided = prepared(
        transaction,
        TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        turn.timestamp_ms,
        client_version=client_version,
        is_fence=is_fence,
        fresh_producer_id=fresh_producer_id,
    )
    shard.write(turn, transactional_id, decided)
    complete = completed(decided, turn.timestamp_ms)
    if decided.partitions:
        turn.effects.append(markers_of(shard, transactional_id))
    else:
        shard.write(turn, transactional_id, complete)
    turn.counted = (*turn.counted, ending)
    return complete.identity


def needs_producer_id(transaction: Transaction, client_version: int) -> bool:
    """Return whether an end of the transaction leaves no epoch to go on with."""
    return client_version >= EPOCH_BUMP_VERSION and transaction.client_identity.epoch >= LAST_USABLE_EPOCH


def markers_of(shard: TransactionShardState, transactional_id: str) -> SendMarkers:
    """Return what has the markers of a prepared transaction sent."""
    transaction = shard.transactions[transactional_id]
    assert transaction.state in PREPARED, f"{transaction.state.value} has no markers"
    return SendMarkers(
        end=EndOfTransaction(
            transactional_id=transactional_id,
            identity=transaction.identity,
            serial=shard.next_serial(transactional_id),
        ),
        is_commit=transaction.state is TransactionState.PREPARE_COMMIT,
        transaction_version=transaction.client_version,
        partitions=transaction.partitions,
        ownership_number=shard.ownership_number,
        start_ms=transaction.start_ms,
    )


def complete_if_meant(shard: TransactionShardState, turn: Turn, end_: EndOfTransaction) -> bool:
    """Complete a transaction whose partitions have their markers, if that is still the end that is meant.

    The markers took time. Since they were sent the id may have been completed and have begun another transaction, or
    even have expired.
    """
    transaction = shard.transactions.get(end_.transactional_id)
    if transaction is None or shard.sent_ends.get(end_.transactional_id) != end_.serial:
        return False
    assert transaction.state in PREPARED, "a transaction whose markers are on their way does not change"
    del shard.sent_ends[end_.transactional_id]
    shard.write(turn, end_.transactional_id, completed(transaction, turn.timestamp_ms))
    return True
