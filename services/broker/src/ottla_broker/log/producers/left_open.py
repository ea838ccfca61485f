"""The transactions that a source has left open in a log, and what ends them there. Pure.

Their coordinator is the source's, which writes no markers here. Without one they would be open for ever, and readers
of committed records would stand still before them. None of their records counts as committed, so they are aborted.
A coordinator of this cluster may have a producer of the same id: so an open transaction is the source's only if it
began before the promotion, which is where leader epochs leap, and it is ended before anything else is written.

The same is due in a log that still follows where the source has deleted what comes next, perhaps with markers. What
was open before such a gap could get an end that is another one's: that of the producer's next transaction.
"""

from collections.abc import Sequence

from ottla_broker.log.files.leader_epoch_checkpoint import EpochEntry
from ottla_broker.log.producers.producer_state import NO_TRANSACTION, ProducerEntry, ProducerStates
from ottla_core.promotion import PROMOTION_LEAP
from ottla_core.wire.control_records import PROMOTION_MARKER, TransactionMarker


def promoted_at(epochs: Sequence[EpochEntry]) -> int:
    """Return the offset at which a log's last promotion lies, or -1 if none does.

    An epoch that is the first one known may have begun anywhere before, so it tells of no promotion.
    """
    for before, after in zip(reversed(epochs[:-1]), reversed(epochs), strict=False):
        if after.epoch - before.epoch >= PROMOTION_LEAP:
            return after.start_offset
    return -1


def left_open(producers: ProducerStates, promotion_offset: int) -> list[ProducerEntry]:
    """Return the producers with a transaction that began before a promotion, in the order in which these began.

    Where the log was empty at the promotion, its epochs do not tell where that lies; then the producers do.
    """
    found = [
        each
        for each in producers
        if 0 <= each.current_transaction_first_offset < promotion_offset
        or (each.is_of_source and each.current_transaction_first_offset != NO_TRANSACTION)
    ]
    return sorted(found, key=lambda each: each.current_transaction_first_offset)


def open_before_gap(producers: ProducerStates, offset_count: int) -> list[ProducerEntry]:
    """Return the producers whose transactions are to be aborted in a gap, in the order in which these began.

    No more than the gap has offsets can have ended in it.
    """
    found = [each for each in producers if each.current_transaction_first_offset != NO_TRANSACTION]
    return sorted(found, key=lambda each: each.current_transaction_first_offset)[: max(0, offset_count)]


def abort_of_source(producer: ProducerEntry) -> TransactionMarker:
    """Return the marker that ends a producer's transaction, and has every replica forget the producer."""
    return TransactionMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        is_commit=False,
        coordinator_epoch=PROMOTION_MARKER,
    )
