"""Applies OffsetCommit records."""

from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.offsets.topic_identity import with_topic_id
from ottla_group_coordinator.records import OffsetCommitKey, OffsetCommitValue
from ottla_group_coordinator.shard_state import ShardState


def replay_offset_commit(shard: ShardState, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    """Set or forget an offset.

    Whoever commits without having joined makes a group by it: one without members that only keeps offsets. While
    records are loaded, it may turn out later that the group is another.
    """
    if value is not None:
        value = with_topic_id(shard.cluster_state, key, value)
        _ensure_group(shard, key.group)
    shard.offsets.replay(key, value)
    if key.group in shard.pending_offsets.group_ids:
        place = key.topic, key.partition
        if value is None:
            shard.pending_offsets.forget(key.group, place)
        else:
            shard.pending_offsets.supersede(key.group, place)


def replay_pending_offset(
    shard: ShardState, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue
) -> None:
    """Take in an offset that is to be committed by a transaction; it makes a group, too."""
    _ensure_group(shard, key.group)
    shard.pending_offsets.add(producer_id, key, with_topic_id(shard.cluster_state, key, value))


def _ensure_group(shard: ShardState, group_id: str) -> None:
    if group_id not in shard.groups:
        shard.groups[group_id] = ClassicGroup(group_id, timestamp_ms=None)
