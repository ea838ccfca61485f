"""The transactions that a source has left open in a log that follows it no longer, and what ends them. Pure.

Their coordinator is the source's, which writes no markers here. Without one they would be open for ever, and readers
of committed records would stand still before them. None of their records counts as committed, so they are aborted.
A coordinator of this cluster may have a producer of the same id: so an open transaction is the source's only if it
began before the promotion, which is where leader epochs leap, and it is ended before anything else is written.
"""

from collections.abc import Sequence

from ottla_broker.log.files.leader_epoch_checkpoint import EpochEntry
from ottla_broker.log.producers.producer_state import ProducerEntry, ProducerStates
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
    """Return the producers with a transaction that began before a promotion, in the order in which these began."""
    found = [each for each in producers if 0 <= each.current_transaction_first_offset < promotion_offset]
    return sorted(found, key=lambda each: each.current_transaction_first_offset)


def abort_of_promotion(producer: ProducerEntry) -> TransactionMarker:
    """Return the marker that ends a producer's transaction, and has every replica forget the producer."""
    return TransactionMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        is_commit=False,
        coordinator_epoch=PROMOTION_MARKER,
    )
