"""The committed offsets of a shard: group → (topic, partition) → what was committed.

There may be a million of them, so what is kept for each is the value of its record as it is (with its topic's id,
where the record has none), under a plain tuple whose topic name is shared by all groups.
"""

import sys
from collections.abc import Collection, Mapping
from types import MappingProxyType

from ottla_group_coordinator.records import OffsetCommitKey, OffsetCommitValue

NO_OFFSETS: Mapping[tuple[str, int], OffsetCommitValue] = MappingProxyType({})


class OffsetTable:
    """The offsets that are committed."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[tuple[str, int], OffsetCommitValue]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def group_ids(self) -> Collection[str]:
        """The groups that have offsets."""
        return self._groups.keys()

    def of_group(self, group_id: str) -> Mapping[tuple[str, int], OffsetCommitValue]:
        """Return a group's offsets, as they are: not to be held on to while offsets change."""
        return self._groups.get(group_id, NO_OFFSETS)

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Apply a record: set an offset, or forget it if there is no value."""
        offsets = self._groups.get(key.group)
        if value is None:
            if offsets is not None and offsets.pop((key.topic, key.partition), None) is not None:
                self._count -= 1
                if not offsets:
                    del self._groups[key.group]
            return
        if offsets is None:
            offsets = self._groups[key.group] = {}
        count = len(offsets)
        offsets[sys.intern(key.topic), key.partition] = value
        self._count += len(offsets) - count
