"""Forgets offsets that nobody needs any more, and groups that have neither members nor offsets.

From time to time, and soon after a topic was deleted, all groups are looked through. That may take many turns: in
each, so many offsets are looked at and so many tombstones written as keep the turn short.

An offset that an open transaction is about to change is left alone until it has ended, as its tombstone would drop
what is pending, too; and so is a group with such offsets.

Source: `OffsetMetadataManager.cleanupExpiredOffsets`, `OffsetExpirationConditionImpl` and the groups'
`offsetExpirationCondition` in Kafka.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ottla_core.cluster.state.model import ClusterState
from ottla_group_coordinator.group import Group
from ottla_group_coordinator.offsets.tombstones import Tombstones
from ottla_group_coordinator.offsets.topic_identity import is_of_former_topic
from ottla_group_coordinator.records import OffsetCommitValue
from ottla_group_coordinator.records.offset_commit import NO_TIMESTAMP
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

OFFSETS_PER_TURN_MAX = 5_000
"""No further group is looked at in a turn after this many offsets."""

NEXT_TURN_MS = 1
"""After this, the work goes on in another turn, so that others have theirs in between."""


def is_expired(value: OffsetCommitValue, empty_since_ms: int | None, timestamp_ms: int, retention_ms: int) -> bool:
    """Return whether an offset that no member needs has been kept for long enough.

    What was committed may itself say when it expires. Otherwise the retention counts from when the group lost its
    last member or, where there is no such time, from the commit.
    """
    if value.expire_timestamp != NO_TIMESTAMP:
        return timestamp_ms >= value.expire_timestamp
    base_ms = value.commit_timestamp if empty_since_ms is None else empty_since_ms
    return timestamp_ms - base_ms >= retention_ms


def removable_offsets(
    group: Group,
    offsets: Mapping[tuple[str, int], OffsetCommitValue],
    *,
    state: ClusterState,
    timestamp_ms: int,
    retention_ms: int,
    pending: Collection[tuple[str, int]] = (),
) -> list[tuple[str, int]]:
    """Return the partitions whose offsets are to be removed: expired ones, and those of topics that are gone.

    Those with `pending` offsets of transactions are not.
    """
    may_expire = group.offsets_may_expire
    empty_since_ms = group.empty_since_ms
    is_subscribed: dict[str, bool] = {}
    removable = []
    for (topic, partition), value in offsets.items():
        if (topic, partition) in pending:
            continue
        if is_of_former_topic(state, topic, value):
            removable.append((topic, partition))
        elif may_expire and is_expired(value, empty_since_ms, timestamp_ms, retention_ms):
            if topic not in is_subscribed:
                is_subscribed[topic] = group.is_subscribed_to(topic)
            if not is_subscribed[topic]:
                removable.append((topic, partition))
    return removable


@dataclass(frozen=True, slots=True)
class CleanUpOffsets:
    """The next part of a round is due, or the next round."""

    def expire(self, shard: ShardState, turn: Turn) -> None:
        """Look through some groups."""
        cleanup = shard.offset_cleanup
        if not cleanup.waiting_groups:
            cleanup.look_again = False
            cleanup.waiting_groups = list(shard.groups)
            shard.transaction_producers.forget_silent(turn.timestamp_ms)
        tombstones = Tombstones(shard, turn)
        looked_at = 0
        while cleanup.waiting_groups and looked_at < OFFSETS_PER_TURN_MAX:
            group_id = cleanup.waiting_groups[-1]
            looked_at += 1 + len(shard.offsets.of_group(group_id))
            if not clean_up_group(shard, tombstones, group_id, turn.timestamp_ms):
                break
            cleanup.waiting_groups.pop()
        goes_on = cleanup.waiting_groups or cleanup.look_again
        shard.timers.set(self, turn.now_ms + (NEXT_TURN_MS if goes_on else shard.settings.offsets_retention_check_ms))


def clean_up_group(shard: ShardState, tombstones: Tombstones, group_id: str, timestamp_ms: int) -> bool:
    """Remove what is not needed of a group; return False when there was no room for all of it."""
    group = shard.groups.get(group_id)
    if group is None:
        return True
    removable = removable_offsets(
        group,
        shard.offsets.of_group(group_id),
        state=shard.cluster_state,
        timestamp_ms=timestamp_ms,
        retention_ms=shard.settings.offsets_retention_ms,
        pending=shard.pending_offsets.of_group(group_id),
    )
    if not tombstones.remove_offsets(group_id, removable):
        return False
    if group.is_empty and not shard.offsets.of_group(group_id) and not shard.pending_offsets.of_group(group_id):
        return tombstones.remove_group(group)
    return True


def on_loaded(shard: ShardState, turn: Turn) -> None:
    """Begin to look through the groups; at once if topics have been deleted of which offsets may be left."""
    shard.timers.set(CleanUpOffsets(), turn.now_ms + shard.settings.offsets_retention_check_ms)
    on_topics(shard, turn)


def on_topics(shard: ShardState, turn: Turn) -> None:
    """Look through the groups soon if a topic has been deleted."""
    cleanup = shard.offset_cleanup
    last_deletion = max(shard.cluster_state.deleted_topics.values(), default=0)
    if last_deletion > cleanup.deletions_seen:
        cleanup.deletions_seen = last_deletion
        cleanup.look_again = True
        shard.timers.set(CleanUpOffsets(), turn.now_ms + NEXT_TURN_MS)
