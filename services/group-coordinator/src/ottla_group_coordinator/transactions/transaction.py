"""What is known of one transactional id, and each change of it as a function that returns the changed one.

A change that the table of states or the epochs do not allow is a bug of the caller, so it is asserted. What a client
may ask for is decided in `handlers/` and `ending.py`.

The *identity* is the producer id and epoch under which the producer of this id writes. It moves on

- by InitProducerId: to the next epoch, or to a new producer id once the epochs of one have run out;
- since transaction version 2 (KIP-890) by each end of a transaction. Its markers have an epoch one above that of its
  records, so that a marker, or a record, that arrives late is not taken for one of the next transaction. The epoch
  `EPOCH_MAX` is only ever a marker's; the producer goes on with a new id then, which waits as `next_producer_id`
  until the transaction is complete;
- by InitProducerId that keeps a prepared transaction (KIP-939): the open transaction stays under its identity, the
  producer goes on under `next_producer_id` and `next_producer_epoch`, which become the identity in the end.

Source: `TransactionMetadata` in Kafka's transaction coordinator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ottla_group_coordinator.transactions.transaction_state import (
    AT_REST,
    PREDECESSORS,
    PREPARED,
    TransactionState,
)

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
EPOCH_MAX = 2**15 - 1
LAST_USABLE_EPOCH = EPOCH_MAX - 1
"""No producer gets a later one, so that there is always one left to fence it with."""

NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of transactions in a two-phase commit of others: they are never aborted for their age."""

EPOCH_BUMP_VERSION = 2
"""The transaction version from which on each end of a transaction raises the epoch."""

Partitions = Mapping[str, tuple[int, ...]]
"""Indexes of partitions by topic, each once and in ascending order."""


class Identity(NamedTuple):
    """What a producer writes as."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What is known of a transactional id. Compared by what a record keeps of it.

    Attributes:
        producer_id: of the last transaction, and of the next one unless `next_producer_id` says otherwise.
        producer_epoch: likewise; `NO_PRODUCER_EPOCH` before the first producer has one.
        previous_producer_id: the producer id before the last change.
        next_producer_id: the producer id after the end of the transaction, if that is another one.
        next_producer_epoch: the epoch then; `NO_PRODUCER_EPOCH` stands for the first one.
        last_producer_epoch: the epoch before the last change, if the producer itself has brought it about; in memory
            only, as in Kafka. It tells an InitProducerId that comes again.
        timeout_ms: how long a transaction may take.
        partitions: those that are added and have no marker yet, as far as is known.
        start_ms: when the transaction began, in milliseconds since the epoch.
        updated_ms: when anything changed last.
        client_version: the transaction version by which the last change was made.
    """

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH, compare=False)
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: Partitions = field(default_factory=dict)
    start_ms: int = NO_TIMESTAMP
    updated_ms: int
    client_version: int = 0

    @property
    def identity(self) -> Identity:
        """What the records of the open transaction bear, or those of the next one."""
        return Identity(self.producer_id, self.producer_epoch)

    @property
    def client_identity(self) -> Identity:
        """What the producer knows itself by: another one than `identity` while it has kept a prepared transaction."""
        if self.state is TransactionState.ONGOING and self.next_producer_id != NO_PRODUCER_ID:
            return Identity(self.next_producer_id, max(self.next_producer_epoch, 0))
        return self.identity

    @property
    def epoch_is_exhausted(self) -> bool:
        """Whether no producer may get a later epoch of this producer id."""
        return self.producer_epoch >= LAST_USABLE_EPOCH

    @property
    def is_two_phase(self) -> bool:
        """Whether it takes part in a two-phase commit of others, and hence has no timeout."""
        return self.timeout_ms == NO_TIMEOUT_MS

    def has(self, topic: str, partition: int) -> bool:
        """Return whether a partition is a part of the transaction."""
        return partition in self.partitions.get(topic, ())


def moved(transaction: Transaction, state: TransactionState, now_ms: int, **changes: object) -> Transaction:
    """Return the transaction in another state; what is not said stays, but for the previous producer id."""
    assert transaction.state in PREDECESSORS[state], f"{state.value} does not follow {transaction.state.value}"
    after = replace(
        transaction,
        **{  # type: ignore[arg-type]  # checked by the names of the fields
            "state": state,
            "previous_producer_id": transaction.producer_id,
            "updated_ms": now_ms,
            **changes,
        },
    )
    assert after.producer_id >= 0, "a transaction has a producer"
    assert 0 <= after.producer_epoch <= EPOCH_MAX, f"there is no epoch {after.producer_epoch}"
    return after


def begun_anew(
    transaction: Transaction, identity: Identity, now_ms: int, *, timeout_ms: int, last_epoch: int
) -> Transaction:
    """Return the id as a producer has it that begins; see `Transaction.last_producer_epoch` for `last_epoch`."""
    # A request that comes again is recognized by the producer id before, however often it comes.
    is_repeated = identity == transaction.identity
    return moved(
        transaction,
        TransactionState.EMPTY,
        now_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        previous_producer_id=transaction.previous_producer_id if is_repeated else transaction.producer_id,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions={},
        start_ms=NO_TIMESTAMP,
    )


def with_partitions(
    transaction: Transaction, added: Mapping[str, Iterable[int]], now_ms: int, client_version: int
) -> Transaction:
    """Return the transaction with more partitions; it begins with the first ones."""
    partitions = dict(transaction.partitions)
    for topic, indexes in added.items():
        partitions[topic] = tuple(sorted({*partitions.get(topic, ()), *indexes}))
    return moved(
        transaction,
        TransactionState.ONGOING,
        now_ms,
        partitions=partitions,
        start_ms=now_ms if transaction.state in AT_REST else transaction.start_ms,
        client_version=client_version,
    )


def kept(transaction: Transaction, client: Identity, now_ms: int) -> Transaction:
    """Return an open transaction that a producer keeps which has begun anew under another identity (KIP-939)."""
    return moved(
        transaction,
        TransactionState.ONGOING,
        now_ms,
        next_producer_id=client.producer_id,
        next_producer_epoch=client.epoch,
    )


def prepared(
    transaction: Transaction,
    state: TransactionState,
    now_ms: int,
    *,
    client_version: int,
    is_fence: bool,
    fresh_producer_id: int,
) -> Transaction:
    """Return the transaction with its end decided.

    Args:
        transaction: an open one; or one at rest, which may be aborted since transaction version 2.
        state: how it ends, `PREPARE_COMMIT` or `PREPARE_ABORT`.
        now_ms: the time for the record.
        client_version: from `EPOCH_BUMP_VERSION` on, markers have the next epoch.
        is_fence: whether the coordinator ends it, not its producer: then markers have the next epoch in any version.
        fresh_producer_id: what the producer goes on with if no epoch is left for it, or `NO_PRODUCER_ID`.
    """
    raises_epoch = client_version >= EPOCH_BUMP_VERSION
    changes: dict[str, object] = {"client_version": client_version}
    if transaction.state in AT_REST:
        changes["start_ms"] = now_ms  # nothing was added; a complete transaction has a beginning all the same
    if raises_epoch or is_fence:
        changes["producer_epoch"] = min(transaction.producer_epoch + 1, EPOCH_MAX)
        changes["last_producer_epoch"] = transaction.producer_epoch if raises_epoch else NO_PRODUCER_EPOCH
    if transaction.state is TransactionState.ONGOING and transaction.next_producer_id != NO_PRODUCER_ID:
        changes |= _next_client(transaction, client_version, fresh_producer_id)
    elif raises_epoch and transaction.epoch_is_exhausted:
        changes["next_producer_id"] = fresh_producer_id
    return moved(transaction, state, now_ms, **changes)


def _next_client(transaction: Transaction, client_version: int, fresh_producer_id: int) -> dict[str, object]:
    """Return the producer's next identity after the end of a transaction that it has kept.

    It moves on once more, or an EndTxn that arrives late could end the next transaction.
    """
    client = transaction.client_identity
    if client_version < EPOCH_BUMP_VERSION:
        return {}
    if client.epoch >= LAST_USABLE_EPOCH:
        return {"next_producer_id": fresh_producer_id, "next_producer_epoch": 0}
    return {"next_producer_id": client.producer_id, "next_producer_epoch": client.epoch + 1}


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """Return a prepared transaction after every partition has its marker."""
    assert transaction.state in PREPARED, f"{transaction.state.value} is not decided"
    is_commit = transaction.state is TransactionState.PREPARE_COMMIT
    changes: dict[str, object] = {}
    if transaction.next_producer_id != NO_PRODUCER_ID:
        changes = {
            "producer_id": transaction.next_producer_id,
            "producer_epoch": max(transaction.next_producer_epoch, 0),
        }
    return moved(
        transaction,
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        now_ms,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions={},
        **changes,
    )
