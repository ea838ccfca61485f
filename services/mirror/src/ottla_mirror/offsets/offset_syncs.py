"""Offset syncs as MirrorMaker 2 writes them, for programs that read its topic; groups do not need them. Pure.

A sync says of one record of a partition where it is at the target. MirrorMaker writes one whenever a record does not
follow the one before, or `offset.lag.max` records after the last one, and one for the rest once a minute. Here it is
one for each partition and flush at most, of the last record that was copied, under the same conditions.
Source of the format: `OffsetSync` in Kafka's connect/mirror.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla_mirror.internal_topics.struct_fields import INT32, INT64, FieldReader, string
from ottla_mirror.internal_topics.topic_requests import Entry
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.stored_copy import StoredCopy

DELAY_S_MAX: Final = 60.0


class OffsetSync(NamedTuple):
    """Where a record of the source is at the target."""

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int

    def entry(self) -> Entry:
        """Return it as a record."""
        key = string(self.topic) + INT32.pack(self.partition)
        return Entry(key, INT64.pack(self.upstream_offset) + INT64.pack(self.downstream_offset))


def read_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    """Return the sync that a record is.

    Raises:
        InvalidRecord: it is malformed.
    """
    keys, values = FieldReader(key, "key of an offset sync"), FieldReader(value, "offset sync")
    return OffsetSync(keys.string(), keys.int32(), values.int64(), values.int64())


class _Last(NamedTuple):
    sync: OffsetSync
    time_s: float


class OffsetSyncs:
    """Decides when the sync of a partition is due.

    Args:
        offset_lag_max: so many records may follow the last sync.
    """

    def __init__(self, offset_lag_max: int) -> None:
        self._offset_lag_max = offset_lag_max
        self._last: dict[tuple[str, int], _Last] = {}
        self._pending: dict[tuple[str, int], OffsetSync] = {}

    def note(self, partition: SourcePartition, copy: StoredCopy) -> None:
        """Take note of how far a partition was copied."""
        bounds = copy.map.bounds
        if bounds.runs_source_end == bounds.source_start:
            return
        name = (partition.topic, partition.partition)
        sync = OffsetSync(*name, bounds.runs_source_end - 1, bounds.runs_target_end - 1)
        last = self._last.get(name)
        if last is None or last.sync != sync:
            self._pending[name] = sync

    def due(self, now_s: float) -> list[OffsetSync]:
        """Return the syncs that are due.

        Args:
            now_s: a monotonic time in seconds.
        """
        return [sync for name, sync in self._pending.items() if self._is_due(sync, self._last.get(name), now_s)]

    def pending(self) -> list[OffsetSync]:
        """Return the syncs of all that was copied since the last ones, due or not."""
        return list(self._pending.values())

    def written(self, syncs: Iterable[OffsetSync], now_s: float) -> None:
        """Take note that syncs were written."""
        for sync in syncs:
            name = (sync.topic, sync.partition)
            self._last[name] = _Last(sync, now_s)
            if self._pending.get(name) == sync:
                del self._pending[name]

    def _is_due(self, sync: OffsetSync, last: _Last | None, now_s: float) -> bool:
        if last is None:
            return True
        copied = sync.downstream_offset - last.sync.downstream_offset
        has_gap = sync.upstream_offset - last.sync.upstream_offset != copied
        return has_gap or copied > self._offset_lag_max or now_s - last.time_s >= DELAY_S_MAX
