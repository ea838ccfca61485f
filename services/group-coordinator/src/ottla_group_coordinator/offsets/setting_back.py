"""Takes all groups of a shard back to where partitions were cut off.

A partition that begins to follow another cluster loses the records that the other one does not have
(`ottla_broker.links`). Other records come at their offsets, so a group that goes on where it was would skip these.
It does not help to lower what is stored while a group has members: they go by positions of their own, which may lie
behind the cut although nothing is committed there yet, and commit them later. So the members are removed in the turn
that lowers the offsets. What they commit after that is refused, and who joins anew begins at what is stored.

An open transaction may have an offset pending behind the cut, which it would commit afterwards. So the group's
present offset is stored again, which supersedes the pending one. If the group has none, the pending one is dropped.

That a group is looked at again does no harm: an offset that is not behind the cut stays as it is.
"""

from collections.abc import Mapping

from kio.schema.leave_group.v5.request import MemberIdentity

from ottla_core.wire.record_batch import HEADER_SIZE_BYTES
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.leave import leave
from ottla_group_coordinator.consumer.departure import remove_members
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.group import Group
from ottla_group_coordinator.offsets.topic_identity import is_of_former_topic
from ottla_group_coordinator.records import NO_UUID, OffsetCommitKey, OffsetCommitValue
from ottla_group_coordinator.records.offset_commit import NO_LEADER_EPOCH, NO_TIMESTAMP, make_value, record_bytes_max
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

Ends = Mapping[tuple[str, int], int]
"""By topic and partition, the offset that no group is to be further than."""

RECORDS_PER_MEMBER_MAX = 4
"""The tombstones of a member, and what its group writes besides."""


def set_groups_back(shard: ShardState, turn: Turn, ends: Ends) -> bool:
    """Take groups back to some offsets; return whether that is done, or goes on when it is asked for again."""
    room_bytes = shard.settings.batch_bytes_max - HEADER_SIZE_BYTES
    topics = frozenset(topic for topic, _ in ends)
    for group_id in tuple(shard.groups):
        offsets, pending = shard.offsets.of_group(group_id), shard.pending_offsets.of_group(group_id)
        places = sorted(ends.keys() & (offsets.keys() | pending.keys()))
        for place in places:
            if not _is_ahead(shard, group_id, place, ends[place]):
                continue
            value = offsets.get(place)
            room_bytes -= record_bytes_max(group_id, place[0], "" if value is None else value.metadata)
            if room_bytes < 0 and turn.records:
                return False
            key = OffsetCommitKey(group=group_id, topic=place[0], partition=place[1])
            shard.write(turn, key, None if value is None else _lowered(value, ends[place], turn.timestamp_ms))
        group = shard.groups[group_id]
        may_read_on = bool(places) or any(group.is_subscribed_to(topic) for topic in topics)
        if may_read_on and not group.is_empty:
            room_bytes -= sum(RECORDS_PER_MEMBER_MAX * record_bytes_max(group_id, each) for each in group.members)
            if room_bytes < 0 and turn.records:
                return False
            _remove_all_members(shard, turn, group)
    return True


def _is_ahead(shard: ShardState, group_id: str, place: tuple[str, int], end: int) -> bool:
    """Return whether a group's offset is behind the cut, or one that an open transaction may commit."""
    present = shard.offsets.of_group(group_id).get(place)
    values = shard.pending_offsets.values_of(group_id, place)
    return any(
        value.offset > end and not is_of_former_topic(shard.cluster_state, place[0], value)
        for value in (*values, *([] if present is None else [present]))
    )


def _lowered(value: OffsetCommitValue, end: int, timestamp_ms: int) -> OffsetCommitValue:
    expires = value.expire_timestamp != NO_TIMESTAMP
    return make_value(
        min(value.offset, end),
        NO_LEADER_EPOCH,
        value.metadata,
        timestamp_ms,
        value.expire_timestamp,
        NO_UUID if expires else value.topic_id,
    )


def _remove_all_members(shard: ShardState, turn: Turn, group: Group) -> None:
    if isinstance(group, ConsumerGroup):
        remove_members(shard, turn, group, tuple(group.members))
        return
    assert isinstance(group, ClassicGroup)
    leaving = [
        MemberIdentity(member_id=member.member_id, group_instance_id=member.instance_id)
        for member in group.members.values()
    ]
    leave(shard, turn, group, leaving)
