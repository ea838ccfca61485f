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
    if value is not None and key.group not in shard.groups:
        shard.groups[key.group] = ClassicGroup(key.group, timestamp_ms=None)
    shard.offsets.replay(key, value)
