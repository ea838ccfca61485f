"""Offset syncs as MirrorMaker 2 writes them, for programs that read its topic; groups do not need them.

A sync says of one record of a partition where it is at the target. MirrorMaker writes one whenever a record does not
follow the one before, or `offset.lag.max` records after the last one, and one for the rest once a minute. Here it is
one for each partition and flush at most, of the last record that was copied, under the same conditions.
Source of the format: `OffsetSync` in Kafka's connect/mirror.
"""

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
        InvalidRecord: it is none.
    """
    keys, values = FieldReader(key, "key of an offset sync"), FieldReader(value, "offset sync")
    return OffsetSync(keys.string(), keys.int32(), values.int64(), values.int64())


class _Last(NamedTuple):
    sync: OffsetSync
    time_s: float


class OffsetSyncs:
    """Decides when a partition's sync is due.

    Args:
        offset_lag_max: so many records may follow the last sync.
    """

    def __init__(self, offset_lag_max: int) -> None:
        self._offset_lag_max = offset_lag_max
        self._last: dict[tuple[str, int], _Last] = {}

    def due(self, partition: SourcePartition, copy: StoredCopy, now_s: float) -> OffsetSync | None:
        """Return the sync of what was copied last, if it is due; None if not, or if nothing was copied.

        Args:
            partition: the partition.
            copy: how far it was copied.
            now_s: a monotonic time in seconds.
        """
        bounds = copy.map.bounds
        if bounds.runs_source_end == bounds.source_start:
            return None
        sync = OffsetSync(
            partition.topic, partition.partition, bounds.runs_source_end - 1, bounds.runs_target_end - 1
        )
        last = self._last.get((partition.topic, partition.partition))
        if last is None:
            return sync
        if sync == last.sync:
            return None
        copied = sync.downstream_offset - last.sync.downstream_offset
        has_gap = sync.upstream_offset - last.sync.upstream_offset != copied
        is_late = now_s - last.time_s >= DELAY_S_MAX
        return sync if has_gap or is_late or copied > self._offset_lag_max else None

    def written(self, sync: OffsetSync, now_s: float) -> None:
        """Take note that a sync was written."""
        self._last[sync.topic, sync.partition] = _Last(sync, now_s)

    def forget(self, partition: SourcePartition) -> None:
        """Take note that another worker has the partition now."""
        self._last.pop((partition.topic, partition.partition), None)
