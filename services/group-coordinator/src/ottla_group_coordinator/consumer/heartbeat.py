"""ConsumerGroupHeartbeat: a member joins, says what has changed, and learns what to own.

A heartbeat is taken in two parts. First all that may be refused is looked at: whether the group can be used, who the
member is, whether its epoch is right, whether what it says can be stored. Then the group is brought into being or
migrated if need be, and the member is updated and taken towards its target assignment.

Source: `GroupMetadataManager.consumerGroupHeartbeat` in Kafka.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.consumer.departure import (
    check_group,
    check_identity,
    renew_session,
    session_timeout_ms,
)
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.consumer.member import JOINING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerMember
from ottla_group_coordinator.consumer.membership import (
    bring_forward,
    check_room,
    check_storable,
    has_same_subscription,
    is_state_known,
    note_visible_topics,
    replace_static_member,
    succeed,
    update_member,
)
from ottla_group_coordinator.consumer.migration import upgrade, upgraded
from ottla_group_coordinator.consumer.partitions import Partitions, contains
from ottla_group_coordinator.errors import FencedMemberEpoch, UnreleasedInstanceId
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

if TYPE_CHECKING:
    from ottla_group_coordinator.group import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a member says, its values within bounds; None is what it does not say, because it has not changed.

    Attributes:
        owned: the partitions that it owns.
        visible_topics: among the topics that its regular expression matches, those that it may describe; None: all.
            Not the member says this but the broker's authorizer, of every heartbeat.
    """

    group_id: str
    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    subscribed_topic_names: frozenset[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    visible_topics: frozenset[str] | None = None

    @property
    def is_joining(self) -> bool:
        """Whether the member comes into the group, or comes again owning nothing."""
        return self.member_epoch == JOINING_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether the member says all there is to say, and so wants to hear all as well."""
        has_subscription = self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        return self.is_joining or (
            self.rebalance_timeout_ms is not None and has_subscription and self.owned is not None
        )


class Beat(NamedTuple):
    """What a heartbeat has come to.

    Attributes:
        member: as it is now.
        tell_assignment: whether it is to hear what it is assigned.
    """

    member: ConsumerMember
    tell_assignment: bool


class _Admission(NamedTuple):
    """Who a member is in the group.

    Attributes:
        known: the member as it was, under its present id; None if it is new.
        replaced: the static member whose place it takes.
    """

    known: ConsumerMember | None
    replaced: ConsumerMember | None = None


def take(shard: ShardState, turn: Turn, heartbeat: Heartbeat) -> Beat:
    """Take a heartbeat of a member that does not leave.

    Raises:
        GroupIdNotFound: there is no such group, or it speaks the classic protocol and cannot be upgraded.
        GroupMaxSizeReached, UnreleasedInstanceId: the member cannot join.
        UnknownMemberId, FencedInstanceId, FencedMemberEpoch: it is no member, or must join again.
        InvalidRequest, InvalidRegularExpression: what it says cannot be used.
    """
    former_group = shard.groups.get(heartbeat.group_id)
    group = _group(shard, former_group, heartbeat)
    check_room(shard, group, heartbeat.member_id, heartbeat.instance_id)
    known, replaced = _admit(group, heartbeat)
    said = _updated(known, heartbeat)
    if said is not known or replaced is not None:  # who takes a place says nothing new, but has another id
        check_storable(shard, group, said)
    # From here on nothing is refused.
    if group is not former_group:
        group = _establish(shard, turn, former_group, group)
    if replaced is not None:
        assert known is not None, "who takes a place has what was there"
        replace_static_member(shard, turn, group, replaced, known)
    has_view_changed = note_visible_topics(shard, group, said.member_id, heartbeat.visible_topics)
    update_member(shard, turn, group, known, said, has_view_changed=has_view_changed)
    # Who joins has given up everything; who subscribes to something else must not be told again to own what it left.
    may_be_behind = not heartbeat.is_joining and known is not None and has_same_subscription(known, said)
    member = bring_forward(shard, turn, group, said, heartbeat.owned, may_be_behind=may_be_behind)
    renew_session(shard, group, member, turn.now_ms)
    if heartbeat.owned is not None:
        group.reported[member.member_id] = heartbeat.owned
    has_assignment_changed = known is None or known.assigned != member.assigned
    may_not_have_heard = heartbeat.owned is None and _may_not_have_heard(shard, group, member, turn.now_ms)
    return Beat(member, heartbeat.is_full or has_assignment_changed or may_not_have_heard)


def _may_not_have_heard(shard: ShardState, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> bool:
    """Return whether a member that reports nothing new has reported something else than it was told since.

    It may be about to take over what it was told, and then hears it twice. But the answer may also have been lost: a
    member that notices says everything anew, but librdkafka sends a heartbeat that timed out once more as it was.
    Not told again, it would never read what counts as its own, or never give up what others wait for.

    A coordinator that has loaded the group does not know what was reported and answered before, so for a session
    timeout it tells every member. A member that hears nothing for so long is removed.
    """
    reported = group.reported.get(member.member_id)
    if reported is None:
        return group.loaded_ms is not None and now_ms < group.loaded_ms + session_timeout_ms(shard, group, member)
    return reported != member.assigned


def _group(shard: ShardState, former: "Group | None", heartbeat: Heartbeat) -> ConsumerGroup:
    """Return the group, or what it will be when the member has joined."""
    if isinstance(former, ConsumerGroup):
        return former
    if not heartbeat.is_joining:
        return check_group(shard, heartbeat.group_id)
    if isinstance(former, ClassicGroup) and former.members:
        return upgraded(shard, former)
    return ConsumerGroup(heartbeat.group_id)


def _establish(shard: ShardState, turn: Turn, former: "Group | None", group: ConsumerGroup) -> ConsumerGroup:
    """Put a new group in the place of the classic one, if there is one."""
    if isinstance(former, ClassicGroup) and former.members:
        group = upgrade(shard, turn, former, group)
        for member in group.members.values():
            renew_session(shard, group, member, turn.now_ms)
        return group
    for tombstone in () if former is None else former.tombstones():
        shard.write(turn, *tombstone)
    shard.groups[group.group_id] = group
    return group


def _admit(group: ConsumerGroup, heartbeat: Heartbeat) -> _Admission:
    if not heartbeat.is_joining:
        member = check_identity(group, heartbeat.member_id, heartbeat.instance_id)
        _check_epoch(group, member, heartbeat)
        return _Admission(member)
    instance = group.static_member(heartbeat.instance_id)
    if instance is None or instance.member_id == heartbeat.member_id:
        return _Admission(group.members.get(heartbeat.member_id))
    if instance.epoch != STATIC_LEAVING_EPOCH and not instance.uses_classic_protocol:
        raise UnreleasedInstanceId(
            f"the instance id {heartbeat.instance_id} still belongs to member {instance.member_id}"
        )
    return _Admission(succeed(instance, heartbeat.member_id), instance)


def _check_epoch(group: ConsumerGroup, member: ConsumerMember, heartbeat: Heartbeat) -> None:
    """See that the member is where we think it is.

    It may come with its previous epoch, since the answer with the present one may have been lost, but then it must
    own nothing that it was not given. If it reports nothing, its last report holds: librdkafka says nothing new in
    the heartbeat behind one that timed out. (Kafka's coordinator fences it, and it loses all its partitions.)
    """
    owned = group.reported.get(member.member_id) if heartbeat.owned is None else heartbeat.owned
    has_missed_answer = (
        heartbeat.member_epoch == member.previous_epoch < member.epoch
        and owned is not None
        and contains(member.assigned, owned)
    )
    if heartbeat.member_epoch != member.epoch and not has_missed_answer:
        raise FencedMemberEpoch(
            f"member {member.member_id} is at epoch {member.epoch}, not {heartbeat.member_epoch}; it must give up "
            "its partitions and join again"
        )
    if not is_state_known(member, heartbeat.owned):
        raise FencedMemberEpoch("the member's state is unknown; it must give up its partitions and join again")


def _updated(known: ConsumerMember | None, heartbeat: Heartbeat) -> ConsumerMember:
    """Return the member with what it says now; the same one if that is nothing new."""
    member = ConsumerMember(member_id=heartbeat.member_id) if known is None else known
    said: dict[str, Any] = {
        "instance_id": heartbeat.instance_id,
        "rack_id": heartbeat.rack_id,
        "rebalance_timeout_ms": heartbeat.rebalance_timeout_ms,
        "subscribed_topic_names": heartbeat.subscribed_topic_names,
        "subscribed_topic_regex": heartbeat.subscribed_topic_regex,
        "server_assignor": heartbeat.server_assignor,
        "client_id": heartbeat.client_id,
        "client_host": heartbeat.client_host,
    }
    changes = {name: value for name, value in said.items() if value is not None and value != getattr(member, name)}
    if member.uses_classic_protocol:
        changes["classic"] = None
    return replace(member, **changes) if changes else member
