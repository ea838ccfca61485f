"""In which epochs of the source's leaders the copied batches were written, so that another history is noticed.

A fetch names the epoch of the last batch before its offset. A leader that has something else there answers with the
largest epoch up to that one which it knows, and where that ends in its log (KIP-320, KIP-595). Both histories may
have parted before that already, in an epoch which only the leader has had: so what counts is the end of the largest
epoch that both know, as for a follower that truncates its log (Kafka's `ReplicaFetcherThread`).

Epochs are kept with the position, since the source may elect another leader while nobody copies. The target says
nothing of them: batches in its log bear the epochs of its own leaders.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

NO_LEADER_EPOCH: Final = -1
EPOCHS_MAX: Final = 32
"""So many are kept, the last ones; who has parted from the source in an earlier one parts where these begin."""


class EpochStart(NamedTuple):
    """From which offset of the source on batches were written in an epoch, up to the next one's.

    Where compaction has removed the batches around its beginning, that is the end of the last one before.
    """

    epoch: int
    source_offset: int


LeaderEpochs = tuple[EpochStart, ...]
"""In order; before the first one nothing is known."""


def begins(epochs: Iterable[EpochStart], epoch: int, source_offset: int) -> LeaderEpochs:
    """Return the epochs with one more; without all others if this one is not known, or not a later one."""
    if epoch == NO_LEADER_EPOCH:
        return ()
    added = EpochStart(epoch, source_offset)
    known = tuple(epochs)
    return (*known, added)[-EPOCHS_MAX:] if last_epoch(known) < epoch else (added,)


def below(epochs: LeaderEpochs, source_offset: int) -> LeaderEpochs:
    """Return the epochs of what lies below an offset."""
    if not epochs or epochs[-1].source_offset < source_offset:
        return epochs
    return tuple(each for each in epochs if each.source_offset < source_offset)


def last_epoch(epochs: LeaderEpochs) -> int:
    """Return the last one, or -1."""
    return epochs[-1].epoch if epochs else NO_LEADER_EPOCH


def parting_offset(epochs: LeaderEpochs, leader_epoch: int, leader_end_offset: int) -> int:
    """Return from which offset of the source on it may have other batches than those that were fetched.

    Args:
        epochs: of what was fetched.
        leader_epoch: the largest epoch of the leader up to the last of these.
        leader_end_offset: where that one ends in the leader's log.
    """
    later = next((each.source_offset for each in epochs if each.epoch > leader_epoch), leader_end_offset)
    return min(later, leader_end_offset)
