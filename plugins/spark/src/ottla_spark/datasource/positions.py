"""Where a query starts and ends, as its options say it; what that is in offsets, only the cluster knows."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_spark.datasource.offsets import EARLIEST, LATEST, Partition


@dataclass(frozen=True, slots=True)
class Earliest:
    """Before the first record that there is."""


@dataclass(frozen=True, slots=True)
class Latest:
    """After the last record that there is."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """At these offsets, one for each partition; `EARLIEST` and `LATEST` are allowed."""

    offsets: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """At the first record with this timestamp in milliseconds or a later one, for each partition."""

    timestamps_ms: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """At the first record of every partition with this timestamp in milliseconds or a later one."""

    timestamp_ms: int


Position = Earliest | Latest | AtOffsets | AtTimestamps | AtTimestamp


def named_partitions(position: Position) -> frozenset[Partition] | None:
    """Return the partitions that a position names; None if it is for whichever there are."""
    numbers = _numbers(position)
    return None if numbers is None else frozenset(numbers)


def is_latest(position: Position, partition: Partition) -> bool:
    """Return whether the position of a partition is after its last record, whatever that is."""
    return position == Latest() or (isinstance(position, AtOffsets) and position.offsets.get(partition) == LATEST)


def is_earliest(position: Position, partition: Partition) -> bool:
    """Return whether the position of a partition is before its first record, whatever that is."""
    return position == Earliest() or (isinstance(position, AtOffsets) and position.offsets.get(partition) == EARLIEST)


def backward_partitions(start: Position, end: Position) -> list[Partition]:
    """Return the partitions whose start is written to be after their end."""
    first, last = _numbers(start), _numbers(end)
    if first is None or last is None or type(start) is not type(end):
        return []
    return sorted(
        partition for partition, number in first.items() if partition in last and 0 <= last[partition] < number
    )


def _numbers(position: Position) -> Mapping[Partition, int] | None:
    match position:
        case AtOffsets(offsets):
            return offsets
        case AtTimestamps(timestamps_ms):
            return timestamps_ms
        case _:
            return None
