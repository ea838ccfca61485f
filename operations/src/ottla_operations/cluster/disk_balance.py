"""Evening out disks without changing how many replicas a broker has. Pure.

The broker with the fullest disk swaps a big replica for a smaller one of a broker with an emptier disk; where it has
one replica more than the other, it may also give one away. Of the swaps that bring two brokers closest together, one
that copies little is preferred. Differences that do not matter are left alone, since every swap copies data.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.placement import Placement

TOLERANCE = 0.1
DIFFERENCE_MIN_BYTES = 64 * 1024 * 1024
SWAPS_MAX = 10_000
NEIGHBOURS = 2
"""How many replicas above and below the ideal size are considered as the counterpart of one."""
COPYING_WEIGHT = 0.1
"""How many bytes of difference one copied byte is worth."""
GAIN_MIN = 0.1
"""The part of a difference by which a swap must reduce it to be worth its copying."""


@dataclass(frozen=True, slots=True)
class DiskGoal:
    """How even disks shall be.

    Attributes:
        tolerance: the part of the mean by which a broker may be above it.
        difference_min_bytes: differences between two brokers up to this are left alone.
    """

    tolerance: float = TOLERANCE
    difference_min_bytes: int = DIFFERENCE_MIN_BYTES


@dataclass(frozen=True, slots=True)
class _Swap:
    """A replica that goes one way, and one that comes back or None."""

    there: TopicPartition
    back: TopicPartition | None
    cost: float


def even_out_disks(placement: Placement, goal: DiskGoal) -> None:
    """Swap replicas until disks are even, or nothing helps any more."""
    disks = placement.disk_bytes
    if not disks:
        return
    limit = sum(disks.values()) / len(disks) * (1 + goal.tolerance)
    stuck: set[int] = set()
    for _ in range(SWAPS_MAX):
        fullest = max(
            (broker for broker in disks if broker not in stuck), key=lambda broker: disks[broker], default=None
        )
        if fullest is None or disks[fullest] <= limit:
            return
        if _relieve(placement, fullest, goal):
            stuck.clear()  # what has moved may be what another one needs
        else:
            stuck.add(fullest)


def _relieve(placement: Placement, fullest: int, goal: DiskGoal) -> bool:
    """Do the best swap with the emptiest broker that has one; return whether there was any."""
    disks = placement.disk_bytes
    for emptier in sorted(disks, key=lambda broker: disks[broker]):
        if disks[fullest] - disks[emptier] <= goal.difference_min_bytes:
            return False
        swap = _best_swap(placement, fullest, emptier)
        if swap is not None:
            placement.move(swap.there, fullest, emptier)
            if swap.back is not None:
                placement.move(swap.back, emptier, fullest)
            return True
    return False


def _best_swap(placement: Placement, fullest: int, emptier: int) -> _Swap | None:
    difference = placement.disk_bytes[fullest] - placement.disk_bytes[emptier]
    there = [name for name in placement.on_broker(fullest) if placement.can_move(name, fullest, emptier)]
    back: list[tuple[int, TopicPartition | None]] = [
        (placement.size_of(name), name)
        for name in placement.on_broker(emptier)
        if placement.can_move(name, emptier, fullest)
    ]
    back.sort(key=lambda entry: entry[0])
    if placement.replica_counts[fullest] > placement.replica_counts[emptier]:
        back.insert(0, (0, None))
    return min(
        (swap for name in there for swap in _swaps_of(name, placement.size_of(name), back, difference)),
        key=lambda swap: swap.cost,
        default=None,
    )


def _swaps_of(
    there: TopicPartition, size: int, back: Sequence[tuple[int, TopicPartition | None]], difference: int
) -> Iterator[_Swap]:
    """Yield swaps of one replica for others of about the ideal size."""
    ideal = bisect_left(back, size - difference / 2, key=lambda entry: entry[0])
    for back_size, name in back[max(0, ideal - NEIGHBOURS) : ideal + NEIGHBOURS]:
        remaining = abs(difference - 2 * (size - back_size))
        if remaining <= difference * (1 - GAIN_MIN):
            yield _Swap(there, name, remaining + COPYING_WEIGHT * (size + back_size))
