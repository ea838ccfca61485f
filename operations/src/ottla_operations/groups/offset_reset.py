"""Where a reset puts a group in each partition. Pure.

A target that lies outside of what a partition holds is moved to its nearest end, as Kafka's own tool does, and the
plan says so: an offset that is not there would send the group's readers to where `auto.offset.reset` says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto


class NothingCommitted(ValueError):
    """A shift has nothing to start from in some partitions; the message names them."""


class Target(Enum):
    """What the number of a `Reset` means."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    TIME_MS = auto()
    SHIFT = auto()
    CURRENT = auto()


@dataclass(frozen=True, slots=True)
class Reset:
    """Where a group is to go on.

    Attributes:
        number: an offset, milliseconds since the epoch, or how many records to go on from the committed offset, as
            the target says.
    """

    target: Target
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """What there is to know about one partition before a reset.

    Attributes:
        committed: the group's offset; None where it has none.
        first: the first offset that the log holds.
        end: the offset that the next record will get.
        at_time: the first offset at or after the reset's time; None if there is none, or no time was asked for.
    """

    topic: str
    partition: int
    committed: int | None
    first: int
    end: int
    at_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOffset:
    """What a reset does to one partition.

    Attributes:
        new: the offset to be committed.
        wanted: the offset asked for; another than `new` only if the partition does not reach there.
    """

    before: PartitionOffsets
    new: int
    wanted: int


def plan_reset(reset: Reset, partitions: Sequence[PartitionOffsets]) -> list[PlannedOffset]:
    """Return the new offset of every partition.

    Raises:
        NothingCommitted: a shift was asked for and a partition has no committed offset.
    """
    if reset.target is Target.SHIFT and (missing := [each for each in partitions if each.committed is None]):
        raise NothingCommitted(f"there is no committed offset to shift in {_names(missing)}")
    return [_planned(reset, each) for each in partitions]


def _planned(reset: Reset, partition: PartitionOffsets) -> PlannedOffset:
    wanted = _wanted(reset, partition)
    return PlannedOffset(before=partition, new=min(max(wanted, partition.first), partition.end), wanted=wanted)


def _wanted(reset: Reset, partition: PartitionOffsets) -> int:
    match reset.target:
        case Target.EARLIEST:
            return partition.first
        case Target.LATEST:
            return partition.end
        case Target.OFFSET:
            return reset.number
        case Target.TIME_MS:
            return partition.end if partition.at_time is None else partition.at_time
        case Target.SHIFT:
            assert partition.committed is not None
            return partition.committed + reset.number
        case Target.CURRENT:
            return partition.end if partition.committed is None else partition.committed


def _names(partitions: Iterable[PartitionOffsets]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}" for each in partitions)
