"""How members leave a group: by themselves, or because a deadline has passed.

A member of the consumer protocol has a session, which each of its heartbeats renews, and while it is to give up
partitions a rebalance timeout. A classic member has a session of the length that it has asked for, and must join
and sync again within its rebalance timeout when the group rebalances.

Source: `consumerGroupLeave`, `consumerGroupFenceMembers` and the `schedule…Timeout` methods in Kafka.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.consumer.member import (
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    current_assignment_record,
)
from ottla_group_coordinator.consumer.migration import downgrade, downgraded
from ottla_group_coordinator.consumer.partitions import NO_PARTITIONS
from ottla_group_coordinator.consumer.regular_expressions import update_expressions
from ottla_group_coordinator.consumer.replay import existing_group
from ottla_group_coordinator.consumer.target_assignment import raise_epoch
from ottla_group_coordinator.errors import FencedInstanceId, GroupIdNotFound, UnknownMemberId
from ottla_group_coordinator.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
)
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState


@dataclass(frozen=True, slots=True)
class _MemberDeadline:
    """A member that is still there by then is removed."""

    group_id: str
    member_id: str

    def expire(self, shard: ShardState, turn: Turn) -> None:
        """Remove the member, so that others get its partitions."""
        group = existing_group(shard, self.group_id)
        if group is not None and self.member_id in group.members:
            remove_members(shard, turn, group, [self.member_id])


class Session(_MemberDeadline):
    """A member was not heard of for its session timeout."""

    __slots__ = ()


class RevocationTimeout(_MemberDeadline):
    """A member was told to give up partitions and has not said in time that it has."""

    __slots__ = ()


class ClassicJoinTimeout(_MemberDeadline):
    """A classic member was told to join again and has not in time."""

    __slots__ = ()


class ClassicSyncTimeout(_MemberDeadline):
    """A classic member has joined and not asked for its assignment in time."""

    __slots__ = ()


def renew_session(shard: ShardState, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    """Give a member a whole session timeout from now."""
    deadline_ms = now_ms + session_timeout_ms(shard, group, member)
    shard.timers.set(Session(group.group_id, member.member_id), deadline_ms)


def session_timeout_ms(shard: ShardState, group: ConsumerGroup, member: ConsumerMember) -> int:
    """Return how long a member may be silent."""
    if member.classic is not None:
        return member.classic.session_timeout_ms
    return shard.settings.session_timeout_ms_of(shard.cluster_state.group_configs.get(group.group_id))


def watch_revocation(shard: ShardState, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    """Set a deadline for a member that has to give up partitions; classic members have others."""
    timer = RevocationTimeout(group.group_id, member.member_id)
    if member.pending_revocation and not member.uses_classic_protocol:
        shard.timers.set(timer, now_ms + member.rebalance_timeout_ms)
    else:
        shard.timers.cancel(timer)


def forget_timers(shard: ShardState, group_id: str, member_id: str) -> None:
    """Cancel whatever is due for a member that goes."""
    for timer in (Session, RevocationTimeout, ClassicJoinTimeout, ClassicSyncTimeout):
        shard.timers.cancel(timer(group_id, member_id))


def load_consumer_groups(shard: ShardState, turn: Turn) -> None:
    """Give every member of a group that was loaded a whole session, and a whole rebalance timeout if it needs one."""
    for group in shard.groups.values():
        if isinstance(group, ConsumerGroup):
            group.loaded_ms = turn.now_ms
            for member in group.members.values():
                renew_session(shard, group, member, turn.now_ms)
                watch_revocation(shard, group, member, turn.now_ms)


def leave(
    shard: ShardState, turn: Turn, group_id: str, *, member_id: str, instance_id: str | None, epoch: int
) -> None:
    """Let a member go, or a static one stop that may be back within its session timeout.

    Raises:
        GroupIdNotFound, UnknownMemberId, FencedInstanceId: there is no such member.
    """
    group = check_group(shard, group_id)
    member = check_identity(group, member_id, instance_id)
    if epoch != STATIC_LEAVING_EPOCH:
        remove_members(shard, turn, group, [member_id])
        return
    stopped = replace(member, epoch=STATIC_LEAVING_EPOCH, pending_revocation=NO_PARTITIONS)
    shard.write(turn, *current_assignment_record(group_id, stopped))
    watch_revocation(shard, group, stopped, turn.now_ms)


def check_group(shard: ShardState, group_id: str) -> ConsumerGroup:
    """Return the group that one of its members names.

    A group turns into a classic one when its last member of the consumer protocol goes. Who was removed because it
    was silent does not know, and to clients GROUP_ID_NOT_FOUND is final: it is told to join anew, upon which the
    group is upgraded again, or the member is told that it cannot be. Kafka's coordinator answers
    GROUP_ID_NOT_FOUND, which is none of the errors that the response's schema lists.

    Raises:
        UnknownMemberId: the group is a classic one, of which nobody is a member in this protocol.
        GroupIdNotFound: there is no such group.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is not None:
        raise UnknownMemberId(f"group {group_id} speaks the classic protocol now; its members must join again")
    raise GroupIdNotFound(f"there is no consumer group {group_id}")


def check_identity(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Return the member that a request names, which if static must be the one that has the instance id now.

    Raises:
        UnknownMemberId: there is no such member or instance.
        FencedInstanceId: another member has taken over the instance id.
    """
    if instance_id is None:
        return group.check_member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberId(f"no member of group {group.group_id} has the instance id {instance_id}")
    if member.member_id != member_id:
        raise FencedInstanceId(f"the instance id {instance_id} belongs to member {member.member_id} now")
    return member


def remove_members(shard: ShardState, turn: Turn, group: ConsumerGroup, member_ids: Collection[str]) -> None:
    """Remove members and let the others have their partitions; without any, nothing happens.

    If only classic members remain, the group may become a classic one, and rebalances.
    """
    if not member_ids:
        return
    classic = downgraded(shard, turn, group, member_ids)
    if classic is not None:
        for member_id in group.members:
            forget_timers(shard, group.group_id, member_id)
        downgrade(shard, turn, group, classic, must_rebalance=True)
        return
    for member_id in member_ids:
        forget_timers(shard, group.group_id, member_id)
        write_removal(shard, turn, group, member_id)
    update_expressions(shard, turn, group)
    raise_epoch(shard, turn, group)


def write_removal(shard: ShardState, turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Write a member's tombstones, in the order in which Kafka's coordinator can take them."""
    group_id = group.group_id
    shard.write(turn, ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    shard.write(turn, ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    shard.write(turn, ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)
