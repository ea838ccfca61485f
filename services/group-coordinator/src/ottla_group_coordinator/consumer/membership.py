"""How members come into a group and change: the steps that a heartbeat and a classic member's JoinGroup share.

Whoever uses them first makes sure that nothing can be refused any more, then calls them in the order in which they
stand here; every step writes what it changes.

Source: `consumerGroupHeartbeat` and `classicGroupJoinToConsumerGroup` in Kafka.
"""

from dataclasses import replace

from ottla_core.errors import InvalidRequest
from ottla_group_coordinator.classic.snapshot import fits
from ottla_group_coordinator.consumer.departure import (
    forget_timers,
    session_timeout_ms,
    watch_revocation,
    write_removal,
)
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.consumer.member import (
    JOINING_EPOCH,
    ConsumerMember,
    MemberState,
    current_assignment_record,
    metadata_record,
)
from ottla_group_coordinator.consumer.partitions import NO_PARTITIONS, Partitions
from ottla_group_coordinator.consumer.reconciliation import missing, reconcile
from ottla_group_coordinator.consumer.regular_expressions import check_expression, update_expressions
from ottla_group_coordinator.consumer.target_assignment import (
    have_topics_changed,
    raise_epoch,
    target_record,
    update_target,
)
from ottla_group_coordinator.errors import GroupMaxSizeReached
from ottla_group_coordinator.records.field_codec import STRING_BYTES_MAX
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState


def check_room(shard: ShardState, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """See that the group may take a client that is no member yet, or takes the place of one.

    Raises:
        GroupMaxSizeReached: it may not.
    """
    size_max = shard.settings.consumer_group_max_size
    if len(group.members) < size_max or member_id in group.members or instance_id in group.static_members:
        return
    raise GroupMaxSizeReached(f"group {group.group_id} has {len(group.members)} members and may have {size_max}")


def check_storable(shard: ShardState, group: ConsumerGroup, member: ConsumerMember) -> None:
    """See that what a member says of itself can be stored.

    Raises:
        InvalidRequest: it is too long.
        InvalidRegularExpression: its expression is invalid, or matches too much.
    """
    # The instance id goes into the record of the classic group that this one may become.
    for text in (group.group_id, member.member_id, member.instance_id or "", member.subscribed_topic_regex):
        if len(text.encode()) > STRING_BYTES_MAX:
            raise InvalidRequest(f"a text of {len(text)} characters is too long, {STRING_BYTES_MAX} bytes fit")
    if member.subscribed_topic_regex and member.subscribed_topic_regex not in group.expressions:
        check_expression(shard, group.group_id, member.subscribed_topic_regex)
    if not fits(metadata_record(group.group_id, member), shard.settings.batch_bytes_max):
        raise InvalidRequest("the subscription is too large to be stored")


def succeed(former: ConsumerMember, member_id: str) -> ConsumerMember:
    """Return a static member as it comes back under a new member id: it keeps what it had."""
    return replace(former, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)


def replace_static_member(
    shard: ShardState, turn: Turn, group: ConsumerGroup, former: ConsumerMember, successor: ConsumerMember
) -> None:
    """Put a static member that comes back in the place of its former self."""
    target = group.target.get(former.member_id, NO_PARTITIONS)
    forget_timers(shard, group.group_id, former.member_id)
    write_removal(shard, turn, group, former.member_id)
    shard.write(turn, *metadata_record(group.group_id, successor))
    shard.write(turn, *target_record(group.group_id, successor.member_id, target))
    shard.write(turn, *current_assignment_record(group.group_id, successor))


def update_member(
    shard: ShardState,
    turn: Turn,
    group: ConsumerGroup,
    former: ConsumerMember | None,
    member: ConsumerMember,
    *,
    has_view_changed: bool = False,
) -> None:
    """Store what a member says of itself if that is new, and raise the group epoch if it calls for it.

    Args:
        shard: of the group.
        turn: takes the records.
        group: whose member it is.
        former: the member as it was; None if it is new.
        member: as it is.
        has_view_changed: whether it may describe other topics than before.
    """
    if member is not former:
        shard.write(turn, *metadata_record(group.group_id, member))
    has_subscription_changed = former is None or not has_same_subscription(former, member)
    has_expression_changed = bool(group.expressions or group.subscribed_expressions) and update_expressions(
        shard, turn, group
    )
    has_changed = has_subscription_changed or has_expression_changed or has_view_changed
    if group.epoch == 0 or has_changed or have_topics_changed(shard, group):
        raise_epoch(shard, turn, group)


def note_visible_topics(
    shard: ShardState, group: ConsumerGroup, member_id: str, visible: frozenset[str] | None
) -> bool:
    """Take up which topics a member may describe of those that its expression matches; None: all.

    This is not kept in the log. Of a group that was loaded since, a member's target says whether it was made by
    another view: a member is told nothing before its own heartbeat has said what it may see.

    Returns:
        Whether the target has to be made anew for it.
    """
    if member_id in group.visible:
        former = group.visible[member_id]
        group.visible[member_id] = visible
        return former != visible
    group.visible[member_id] = visible
    if visible is None:
        return False
    member = group.members.get(member_id)
    permitted = visible if member is None else visible | member.subscribed_topic_names
    target = group.target.get(member_id, NO_PARTITIONS)
    topics = (shard.cluster_state.topics_by_id.get(topic_id) for topic_id in target)
    return any(topic is not None and topic.name not in permitted for topic in topics)


def has_same_subscription(former: ConsumerMember, member: ConsumerMember) -> bool:
    """Return whether a member subscribes to what it has before."""
    return (
        former.subscribed_topic_names == member.subscribed_topic_names
        and former.subscribed_topic_regex == member.subscribed_topic_regex
    )


def bring_forward(
    shard: ShardState,
    turn: Turn,
    group: ConsumerGroup,
    member: ConsumerMember,
    reported: Partitions | None,
    *,
    may_be_behind: bool = False,
) -> ConsumerMember:
    """Make the target assignment if there is none for the group epoch, and take the member towards it.

    Args:
        shard: of the group.
        turn: takes the records.
        group: whose member it is.
        member: as it is.
        reported: what the member says that it owns, or None if it does not say.
        may_be_behind: whether that may be from before it has taken over what it was told.
    """
    if group.epoch > group.assignment_epoch:
        update_target(shard, turn, group)
    target = group.target.get(member.member_id, NO_PARTITIONS)
    unreported = missing(member, target, reported) if may_be_behind else NO_PARTITIONS
    if _is_doubtful(shard, turn, group, member, unreported):
        return member
    reconciled = reconcile(member, group.assignment_epoch, target, group.owner, reported)
    if reconciled is not member:
        shard.write(turn, *current_assignment_record(group.group_id, reconciled))
        watch_revocation(shard, group, reconciled, turn.now_ms)
    return reconciled


def _is_doubtful(
    shard: ShardState, turn: Turn, group: ConsumerGroup, member: ConsumerMember, unreported: Partitions
) -> bool:
    """Return whether a member may have, or be about to have, what it does not report.

    It stays where it is then, and will say that it has it, and be told to give it up. A member that never says so is
    doubted for a session timeout: others wait for it no longer than for one that has died.
    """
    if any(topic_id in shard.cluster_state.topics_by_id for topic_id in unreported):
        since_ms = group.doubted_since_ms.setdefault(member.member_id, turn.now_ms)
        if turn.now_ms < since_ms + session_timeout_ms(shard, group, member):
            return True
    group.doubted_since_ms.pop(member.member_id, None)
    return False


def is_state_known(member: ConsumerMember, reported: Partitions | None) -> bool:
    """Return whether a member can go on: if its state is one of a later version, it must own nothing."""
    return member.state is not MemberState.UNKNOWN or (reported is not None and not reported)
