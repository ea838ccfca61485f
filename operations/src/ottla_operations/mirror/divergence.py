"""Where the histories of two logs part, by their leader epochs. Pure.

The rule is that of Kafka's followers (KIP-101, KIP-320): the logs have the same records up to the smaller end of the
last epoch that both know. Asked for an epoch, a leader answers with the largest that is not above it, and its end.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

UNKNOWN: Final = -1


class EpochEnd(NamedTuple):
    """What a leader answers; `UNKNOWN` if it knows of no epoch that early."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class AskForEpoch:
    """The epoch to ask for next, there and then here."""

    epoch: int


@dataclass(frozen=True, slots=True)
class CommonUpTo:
    """Both logs have the same records below this offset, as far as they have any."""

    end_offset: int


def next_step(there: EpochEnd, here: EpochEnd) -> AskForEpoch | CommonUpTo:
    """Return what two answers mean.

    Args:
        there: for the epoch that was asked for.
        here: for the epoch that was answered there.
    """
    if UNKNOWN in (there.epoch, here.epoch):
        return CommonUpTo(0)
    if here.epoch == there.epoch:
        return CommonUpTo(min(here.end_offset, there.end_offset))
    return AskForEpoch(here.epoch)
