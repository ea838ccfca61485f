"""What groups have committed, compared with the ends of partitions. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from ottla_group_coordinator.lag.end_history import EndHistory

PartitionKey = tuple[str, int]
"""A topic's name and a partition's number."""


class Committed(NamedTuple):
    """An offset that a group has committed."""

    group_id: str
    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class GroupLag:
    """How far a group is behind in a topic.

    Attributes:
        records: in all partitions together.
        seconds: in the partition that is furthest behind.
    """

    records: int = 0
    seconds: float = 0.0


class LagTotals:
    """Adds up the lags of groups by topic."""

    def __init__(self) -> None:
        self._lags: dict[tuple[str, str], GroupLag] = {}

    def add(self, committed: Committed, history: EndHistory, now_s: float) -> None:
        """Add a partition."""
        lag = self._lags.setdefault((committed.group_id, committed.topic), GroupLag())
        lag.records += history.records_behind(committed.offset)
        lag.seconds = max(lag.seconds, history.seconds_behind(committed.offset, now_s))

    def greatest_first(self) -> list[tuple[tuple[str, str], GroupLag]]:
        """Return the lags by group and topic, the greatest first: if there are too many, the least are left out."""
        return sorted(self._lags.items(), key=lambda each: (-each[1].records, each[0]))
