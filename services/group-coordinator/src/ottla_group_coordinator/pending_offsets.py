"""The offsets of transactions that have not ended: producer id → (group, partition) → what is to be committed. Pure.

They become offsets when their transaction is committed, and vanish when it is aborted. What was written last holds,
whichever transaction ends first: an offset that is committed in between, by a later record, supersedes a pending one,
which then only says until its end that the partition's offset is not settled. Compaction of the log goes by the same
order. Source: `OffsetMetadataManager` in Kafka, which compares the positions of records for it.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ottla_group_coordinator.records import OffsetCommitKey, OffsetCommitValue
from ottla_group_coordinator.records.offset_commit import make_key

Place = tuple[str, int]
"""A topic and a partition."""

NOTHING_PENDING: Mapping[Place, Collection[int]] = MappingProxyType({})


class _Pending(NamedTuple):
    """What a producer has written last for a partition.

    Attributes:
        number: counts what was written, in the order of the log.
        value: None if something later was committed.
    """

    number: int
    value: OffsetCommitValue | None


class PendingOffsets:
    """The offsets of open transactions."""

    def __init__(self) -> None:
        self._written = 0
        self._producers: dict[int, dict[tuple[str, Place], _Pending]] = {}
        self._groups: dict[str, dict[Place, set[int]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._producers.values()))

    @property
    def group_ids(self) -> Collection[str]:
        """The groups that have pending offsets."""
        return self._groups.keys()

    def of_group(self, group_id: str) -> Mapping[Place, Collection[int]]:
        """Return a group's partitions with pending offsets, and of which producers: not to be held on to."""
        return self._groups.get(group_id, NOTHING_PENDING)

    def values_of(self, group_id: str, place: Place) -> Iterator[OffsetCommitValue]:
        """Yield what a group's offset may become when transactions are committed."""
        for producer_id in self.of_group(group_id).get(place, ()):
            value = self._producers[producer_id][group_id, place].value
            if value is not None:
                yield value

    def add(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        """Take in a record of a transaction."""
        self._written += 1
        place = sys.intern(key.topic), key.partition
        self._producers.setdefault(producer_id, {})[key.group, place] = _Pending(self._written, value)
        self._groups.setdefault(key.group, {}).setdefault(place, set()).add(producer_id)

    def supersede(self, group_id: str, place: Place, number: int | None = None) -> None:
        """Take note that a group has an offset later than what is pending, or than what was written before `number`.

        Without this, a transaction that is committed afterwards would put the group back to its earlier offset.
        """
        for producer_id in self.of_group(group_id).get(place, ()):
            pending = self._producers[producer_id]
            if number is None or pending[group_id, place].number < number:
                pending[group_id, place] = pending[group_id, place]._replace(value=None)

    def forget(self, group_id: str, place: Place) -> None:
        """Drop what is pending for an offset that is deleted."""
        for producer_id in tuple(self.of_group(group_id).get(place, ())):
            pending = self._producers[producer_id]
            del pending[group_id, place]
            if not pending:
                del self._producers[producer_id]
            self._remove(producer_id, group_id, place)

    def commit(self, producer_id: int) -> list[tuple[OffsetCommitKey, OffsetCommitValue]]:
        """Drop what a producer has pending, and return the offsets that the groups have by it."""
        committed = []
        for (group_id, place), (number, value) in self.abort(producer_id).items():
            if value is not None:
                self.supersede(group_id, place, number)
                committed.append((make_key(group_id, *place), value))
        return committed

    def abort(self, producer_id: int) -> Mapping[tuple[str, Place], _Pending]:
        """Drop what a producer has pending, and return it."""
        pending = self._producers.pop(producer_id, {})
        for group_id, place in pending:
            self._remove(producer_id, group_id, place)
        return pending

    def _remove(self, producer_id: int, group_id: str, place: Place) -> None:
        places = self._groups[group_id]
        places[place].remove(producer_id)
        if not places[place]:
            del places[place]
            if not places:
                del self._groups[group_id]
