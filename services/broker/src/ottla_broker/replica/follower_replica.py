"""How a follower's log becomes equal to its leader's. Pure.

A follower asks for records from its log's end on, and says of which leader epoch its last record is. The leader
compares: where its own log has another end for that epoch, the logs have parted, and it answers with the largest
epoch that it knows up to that one, and where that ends. The follower cuts its log where the two can agree, and asks
again, until they do.

Source: KIP-101, KIP-279, KIP-595; Kafka's AbstractFetcherThread.
"""

from dataclasses import dataclass
from typing import Protocol

UNDEFINED_EPOCH = -1
NO_BYTES = 0
"""What a follower asks for whose log lacks records: its fetch tells how far the log reaches, and claims nothing."""


class EpochedLog(Protocol):
    """What the rules need of a log."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch` and where it ends; (-1, -1) if there is none."""


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """From where a follower fetches.

    Attributes:
        offset: its log's end.
        last_fetched_epoch: the leader epoch of its last record, -1 for an empty log.
        leader_epoch: the epoch of the leader that it follows.
        log_start_offset: its log's start.
        claims_all: whether everything below the offset is in the log. If not, it asks for `NO_BYTES`.
    """

    offset: int
    last_fetched_epoch: int
    leader_epoch: int
    log_start_offset: int
    claims_all: bool = True


def truncation_offset(log: EpochedLog, leader_epoch_before: int, leader_end_offset: int) -> int:
    """Return where to cut a log that has parted from the leader's.

    Args:
        log: the follower's.
        leader_epoch_before: the largest epoch that the leader knows up to that of the follower's last record.
        leader_end_offset: where that epoch ends in the leader's log.
    """
    end_offset = log.log_end_offset
    own_epoch, own_end_offset = log.end_offset_for_epoch(leader_epoch_before)
    if own_epoch == UNDEFINED_EPOCH:
        return min(leader_end_offset, end_offset)
    if own_epoch != leader_epoch_before:
        return min(own_end_offset, end_offset)  # the leader is asked again, about an epoch that both may know
    return min(own_end_offset, leader_end_offset, end_offset)
