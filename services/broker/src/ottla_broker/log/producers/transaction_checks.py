"""What batches and markers of transactions must fulfil before a leader appends them. Pure.

A client's batch goes on with the open transaction of its producer and epoch, or begins one with a valid guard
(`verification.py`). A coordinator's batch, by which groups keep a transaction's offsets, has no sequence; the
coordinator has seen to the verification, so only its epoch counts. A marker is of no older epoch than the records,
and of no older coordinator than the last marker. Where epochs are raised at each end (transaction version 2) it is of
a later epoch than the records: one of the same epoch is late, and would end the next transaction but for that. It is
taken again if the transaction has ended with it already, for its answer may have been lost (KAFKA-19999). None is
taken that looks as if a promotion had written it.

Source: Kafka's ProducerAppendInfo and `UnifiedLog.analyzeAndValidateProducerState`.
"""

from typing import Final

from ottla_broker.log.producers.producer_state import NO_TRANSACTION, ProducerBatch, ProducerStates
from ottla_broker.log.producers.verification import VerificationGuard
from ottla_core.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla_core.wire.control_records import PROMOTION_MARKER, TransactionMarker
from ottla_core.wire.record_batch import RecordBatchHeader

FIRST_VERSION_WITH_EPOCH_BUMP: Final = 2
"""From this version of transactions on the epoch is raised at the end of each."""


def check_client_batch(
    producers: ProducerStates, header: RecordBatchHeader, guard: VerificationGuard | None
) -> ProducerBatch | None:
    """Return the batch that a client's transactional one repeats, or None if it may be appended.

    Args:
        producers: the log's.
        header: the batch's.
        guard: a valid guard of the batch's producer and epoch, or None.

    Raises:
        InvalidProducerEpoch: a later epoch has been seen.
        InvalidTransactionState: its transaction is not open here, and there is no guard.
        OutOfOrderSequenceNumber, DuplicateSequenceNumber: as `ProducerStates.check`; or one with a lower sequence is
            being verified.
    """
    producer_id, producer_epoch = header.producer_id, header.producer_epoch
    if not producers.has_open_transaction(producer_id, producer_epoch):
        entry = producers.get(producer_id)
        if entry is not None and entry.producer_epoch == producer_epoch:
            repeated = entry.repeated_by(header)
            if repeated is not None:
                return repeated
        producers.check_epoch(producer_id, producer_epoch)
        if guard is None:
            raise InvalidTransactionState(
                f"The batch of producer {producer_id} with epoch {producer_epoch} for {producers.topic_partition}"
                " is of no transaction that is open there or was verified"
            )
        is_known = entry is not None and bool(entry.batches)
        _check_first_sequence(producers, header, guard, is_known=is_known)
    return producers.check(header)


def _check_first_sequence(
    producers: ProducerStates, header: RecordBatchHeader, guard: VerificationGuard, *, is_known: bool
) -> None:
    if header.base_sequence > guard.lowest_sequence:
        earliest = guard.lowest_sequence
    elif guard.supports_epoch_bump and not is_known and header.base_sequence != 0:
        earliest = 0
    else:
        return
    raise OutOfOrderSequenceNumber(
        f"Out of order sequence number for producer {header.producer_id} in {producers.topic_partition}:"
        f" {header.base_sequence} (incoming), {earliest} (has to come before)"
    )


def check_marker(producers: ProducerStates, marker: TransactionMarker, transaction_version: int) -> None:
    """See that a marker may be appended.

    Args:
        producers: the log's.
        marker: what it says.
        transaction_version: the version of the transaction that it ends.

    Raises:
        InvalidProducerEpoch: it is of an earlier epoch than it has to be.
        TransactionCoordinatorFenced: a later coordinator has written a marker for this producer here, or it is of
            none.
    """
    if marker.coordinator_epoch <= PROMOTION_MARKER:  # which no coordinator has, and which would drop the producer
        raise TransactionCoordinatorFenced(
            f"The marker for producer {marker.producer_id} in {producers.topic_partition} has the impossible"
            f" coordinator epoch {marker.coordinator_epoch}"
        )
    entry = producers.get(marker.producer_id)
    if entry is None:
        return
    current = entry.producer_epoch
    raises_epoch = transaction_version >= FIRST_VERSION_WITH_EPOCH_BUMP
    has_ended = entry.current_transaction_first_offset == NO_TRANSACTION
    if marker.producer_epoch < current or (raises_epoch and marker.producer_epoch == current and not has_ended):
        raise InvalidProducerEpoch(
            f"The marker for producer {marker.producer_id} in {producers.topic_partition} is of epoch"
            f" {marker.producer_epoch}, the last seen one is {current}"
            f" (transaction version {transaction_version})"
        )
    if marker.coordinator_epoch < entry.coordinator_epoch:
        raise TransactionCoordinatorFenced(
            f"The marker for producer {marker.producer_id} in {producers.topic_partition} is of coordinator epoch"
            f" {marker.coordinator_epoch}, the last one was of {entry.coordinator_epoch}"
        )
