"""Removes offsets and groups from the log, as many as fit into one turn.

A group may have more offsets than one record batch can hold tombstones for. Whoever removes such a group goes on in
a later turn when there is no more room in this one.
"""

from collections.abc import Iterable

from ottla_core.wire.record_batch import HEADER_SIZE_BYTES
from ottla_group_coordinator.group import Group
from ottla_group_coordinator.records import OffsetCommitKey, encode_key
from ottla_group_coordinator.records.offset_commit import record_bytes_max
from ottla_group_coordinator.runtime.shard_batches import RECORD_OVERHEAD_BYTES_MAX
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState


class Tombstones:
    """The tombstones of one turn, which must have no other records."""

    def __init__(self, shard: ShardState, turn: Turn) -> None:
        assert not turn.records, "all the room of the turn is ours"
        self._shard = shard
        self._turn = turn
        self._room_bytes = shard.settings.batch_bytes_max - HEADER_SIZE_BYTES

    def remove_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> bool:
        """Remove a group's offsets; return False when there was room for some of them only."""
        for topic, partition in partitions:
            if not self._take(record_bytes_max(group_id, topic)):
                return False
            self._shard.write(self._turn, OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
        return True

    def remove_group(self, group: Group) -> bool:
        """Remove a group that has no offsets; return False when there was no room for it."""
        records = tuple(group.tombstones())
        if not self._take(sum(len(encode_key(record.key)) + RECORD_OVERHEAD_BYTES_MAX for record in records)):
            return False
        for record in records:
            self._shard.write(self._turn, record.key, record.value)
        return True

    def _take(self, size_bytes: int) -> bool:
        """Return whether there is room; the first one always goes in, or nothing would ever be done."""
        if size_bytes > self._room_bytes and self._turn.records:
            return False
        self._room_bytes -= size_bytes
        return True
