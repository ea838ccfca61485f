"""InitProducerId with a transactional id: a producer begins, and with it the next epoch.

A transaction that is open is aborted first, under an epoch that no producer gets, and the client is told to come
again. A producer that names its identity goes on after an error (KIP-360): only it, or nobody, may then have the next
epoch. Where a transaction is open it has to be the present one's, or a request that comes late, or of a producer that
was fenced, would end the transaction; Kafka compares epochs only where none is open. With `enable2_pc` the producer's
transactions have no timeout, and with `keep_prepared_txn` an open one is kept for it to end (KIP-939).

Source: `TransactionCoordinator.handleInitProducerId` in Kafka; for transactions that are kept, KIP-939.
"""

from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse

from ottla_core.errors import InvalidRequest, TransactionalIdAuthorizationFailed, UnsupportedVersion
from ottla_core.wire.conversion import message_of
from ottla_group_coordinator.records.field_codec import STRING_BYTES_MAX
from ottla_group_coordinator.runtime.errors import CoordinatorNotAvailable
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.transactions.counts import Ending
from ottla_group_coordinator.transactions.ending import end, needs_producer_id
from ottla_group_coordinator.transactions.errors import (
    EndUnderWay,
    InvalidTransactionTimeout,
    InvalidTxnState,
    ProducerFenced,
)
from ottla_group_coordinator.transactions.requests import TransactionRequest
from ottla_group_coordinator.transactions.settings import TransactionSettings
from ottla_group_coordinator.transactions.shard_state import TransactionShardState
from ottla_group_coordinator.transactions.transaction import (
    EPOCH_MAX,
    LAST_USABLE_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Identity,
    Transaction,
    begun_anew,
    kept,
)
from ottla_group_coordinator.transactions.transaction_state import PREPARED, TransactionState

NOBODY = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def handle(shard: TransactionShardState, request: TransactionRequest, turn: Turn) -> None:
    """Answer an InitProducerId."""
    message: InitProducerIdRequest = request.newest()
    expected = _expected(message)
    if not message.transactional_id:
        raise InvalidRequest("a producer without a transactional id needs no coordinator")
    if len(message.transactional_id.encode()) > STRING_BYTES_MAX:  # its record could not be written
        raise InvalidRequest(f"a transactional id has at most {STRING_BYTES_MAX} bytes")
    timeout_ms = _timeout_ms(message, expected, shard.settings)
    transaction = _known(shard, message.transactional_id, turn)
    if transaction.state in PREPARED:
        raise EndUnderWay(message.transactional_id)
    if expected is not None and not _may_go_on(transaction, expected):
        raise ProducerFenced
    if transaction.state is TransactionState.ONGOING:
        if expected is not None and expected != transaction.client_identity:
            # It has begun since: another producer has, or this one, whose request comes for the second time, late.
            raise ProducerFenced
        if message.keep_prepared_txn:
            _keep(shard, request, turn, message.transactional_id)
        else:
            _fence(shard, request, turn, message.transactional_id)
        return
    identity, last_epoch = _next_identity(shard, transaction, expected)
    begun = begun_anew(transaction, identity, turn.timestamp_ms, timeout_ms=timeout_ms, last_epoch=last_epoch)
    shard.write(turn, message.transactional_id, begun)
    turn.answer(request.token, _response(ErrorCode.none, identity))


def _expected(message: InitProducerIdRequest) -> Identity | None:
    """Return the identity that the producer has, or None if it has none.

    Raises:
        InvalidRequest: it names half of one.
    """
    named = Identity(message.producer_id, message.producer_epoch)
    if named == NOBODY:
        return None
    if named.producer_id == NO_PRODUCER_ID or named.epoch == NO_PRODUCER_EPOCH:
        raise InvalidRequest("a producer id comes with its epoch, and an epoch with its producer id")
    return named


def _timeout_ms(message: InitProducerIdRequest, expected: Identity | None, settings: TransactionSettings) -> int:
    """Return how long the producer's transactions may take.

    Raises:
        TransactionalIdAuthorizationFailed: two-phase commits of others are not allowed here.
        UnsupportedVersion, InvalidRequest: a transaction cannot be kept here, or not like this.
        InvalidTransactionTimeout: the timeout is not allowed.
    """
    if message.enable2_pc and not settings.two_phase_commit:
        raise TransactionalIdAuthorizationFailed("transaction.two.phase.commit.enable is false")
    if message.keep_prepared_txn:
        if not settings.two_phase_commit:
            raise UnsupportedVersion("transaction.two.phase.commit.enable is false")
        if not message.enable2_pc or expected is not None:
            raise InvalidRequest("a transaction is kept for a producer of two-phase commits that has just begun")
    if message.enable2_pc:
        return NO_TIMEOUT_MS
    timeout_ms = message.transaction_timeout // timedelta(milliseconds=1)
    if not 0 < timeout_ms <= settings.max_timeout_ms:
        raise InvalidTransactionTimeout
    return timeout_ms


def _known(shard: TransactionShardState, transactional_id: str, turn: Turn) -> Transaction:
    """Return what is known of the id; a new one, with a producer id, is not the shard's before it is written."""
    known = shard.transactions.get(transactional_id)
    if known is not None:
        return known
    return Transaction(producer_id=_fresh_id(shard), timeout_ms=0, updated_ms=turn.timestamp_ms)


def _fresh_id(shard: TransactionShardState) -> int:
    fresh = shard.take_spare_id()
    if fresh == NO_PRODUCER_ID:
        raise CoordinatorNotAvailable("no producer id came along")
    return fresh


def _may_go_on(transaction: Transaction, expected: Identity) -> bool:
    """Return whether the producer may be the last one of this id; its epoch is looked at later."""
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.client_identity.producer_id
        # It has not heard of the producer id that it got when its epochs had run out.
        or (expected.producer_id == transaction.previous_producer_id and expected.epoch >= LAST_USABLE_EPOCH)
    )


def _next_identity(
    shard: TransactionShardState, transaction: Transaction, expected: Identity | None
) -> tuple[Identity, int]:
    """Return what a producer writes under that begins, and the epoch to recognize this request by if it comes again.

    Raises:
        ProducerFenced: another producer has begun since.
        CoordinatorNotAvailable: a producer id is needed, and none came along.
    """
    epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
    is_known = expected is None or epoch in {NO_PRODUCER_EPOCH, expected.epoch}
    if not is_known and expected is not None and expected.epoch != last_epoch:
        raise ProducerFenced
    if not is_known and epoch < EPOCH_MAX:
        # It comes again, or goes on after the coordinator has ended its transaction: nobody else has begun, as that
        # would have set the last epoch back. So this epoch is its own.
        return transaction.identity, last_epoch
    last_epoch = expected.epoch if expected is not None and epoch != NO_PRODUCER_EPOCH else NO_PRODUCER_EPOCH
    if transaction.epoch_is_exhausted:
        return Identity(_fresh_id(shard), 0), last_epoch
    return Identity(transaction.producer_id, epoch + 1), last_epoch


def _fence(shard: TransactionShardState, request: TransactionRequest, turn: Turn, transactional_id: str) -> None:
    """Abort the open transaction, and have the client come again."""
    version = shard.own_ending_version
    needs_id = needs_producer_id(shard.transactions[transactional_id], version)
    end(
        shard,
        turn,
        transactional_id,
        ending=Ending.FENCED,
        client_version=version,
        fresh_producer_id=shard.take_spare_id() if needs_id else NO_PRODUCER_ID,
    )
    turn.answer(request.token, _response(ErrorCode.concurrent_transactions, NOBODY))


def _keep(shard: TransactionShardState, request: TransactionRequest, turn: Turn, transactional_id: str) -> None:
    """Leave the open transaction as it is, and let the producer have another identity, under which it ends it.

    Raises:
        InvalidTxnState: the transaction is no part of a two-phase commit.
    """
    transaction = shard.transactions[transactional_id]
    if not transaction.is_two_phase:
        raise InvalidTxnState("the open transaction has a timeout, so it is no part of a two-phase commit")
    former = transaction.client_identity
    if former.epoch >= LAST_USABLE_EPOCH:
        client = Identity(_fresh_id(shard), 0)
    else:
        client = Identity(former.producer_id, former.epoch + 1)
    shard.write(turn, transactional_id, kept(transaction, client, turn.timestamp_ms))
    turn.answer(request.token, _response(ErrorCode.none, client, transaction.identity))


def _response(error: ErrorCode, identity: Identity, ongoing: Identity = NOBODY) -> InitProducerIdResponse:
    return message_of(
        InitProducerIdResponse,
        error_code=error,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        ongoing_txn_producer_id=ongoing.producer_id,
        ongoing_txn_producer_epoch=ongoing.epoch,
    )
