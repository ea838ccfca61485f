"""JoinGroup to a classic group: who may join, as whom, and what follows for the group.

Four kinds of client come: one without an id (a dynamic one is given an id and comes again, KIP-394; a static one
takes its place back, KIP-345), one with an id that was given out, a member of the group, and one that is mistaken.

Source: the `classicGroupJoin…` methods of GroupMetadataManager in Kafka.
"""

from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from ottla_core.errors import KafkaError
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.member import ClassicMember, MemberProtocol, ParkedRequest
from ottla_group_coordinator.classic.rebalance import (
    MemberSession,
    begin_first_session,
    complete_if_joined_again,
    rebalance_or_complete,
    refuse_waiting,
    remove_member,
    renew_session,
)
from ottla_group_coordinator.classic.responses import join_refused, joined
from ottla_group_coordinator.classic.snapshot import fits, snapshot
from ottla_group_coordinator.classic.state import ClassicGroupState
from ottla_group_coordinator.errors import InconsistentGroupProtocol, UnknownMemberId
from ottla_group_coordinator.group import GroupType
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

NO_MEMBER_ID = ""
FIRST_MEMBER_ID_REQUIRED = 4
FIRST_SKIP_ASSIGNMENT = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A JoinGroup whose values are within bounds.

    Attributes:
        member_id: empty if the client has none yet.
        rebalance_timeout_ms: the session timeout where the client names none.
        protocols: at most one of each name.
    """

    parked: ParkedRequest
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]


def join(shard: ShardState, turn: Turn, joining: Joining) -> None:
    """Take a JoinGroup for a classic group, for an empty one of any protocol, or for none yet.

    Raises:
        UnknownMemberId, FencedInstanceId, InconsistentGroupProtocol: the client cannot join so.
    """
    group = shard.groups.get(joining.group_id)
    if group is None or (group.type is not GroupType.CLASSIC and group.is_empty):
        group = _create_group(shard, turn, joining)
    assert isinstance(group, ClassicGroup), "groups of the other protocol that have members take their own JoinGroups"
    if not _has_room(group, joining.member_id, shard.settings.group_max_size):
        _turn_away(shard, turn, group, joining)
        return
    if not group.supports(joining.protocol_type, (protocol.name for protocol in joining.protocols)):
        raise InconsistentGroupProtocol(
            f"group {group.group_id} is of type {group.protocol_type!r} and its members know none of "
            f"{[protocol.name for protocol in joining.protocols]} of type {joining.protocol_type!r}"
        )
    if joining.member_id != NO_MEMBER_ID:
        _join_known(shard, turn, group, joining)
    elif joining.instance_id is None:
        _join_new(shard, turn, group, joining)
    else:
        _join_instance(shard, turn, group, joining, joining.instance_id)


def _create_group(shard: ShardState, turn: Turn, joining: Joining) -> ClassicGroup:
    """Begin a classic group with an empty record, in place of an empty group of the other protocol if there is."""
    if joining.member_id != NO_MEMBER_ID:
        raise UnknownMemberId(f"there is no group {joining.group_id}")
    group = ClassicGroup(joining.group_id, timestamp_ms=turn.timestamp_ms)
    if not group.supports(joining.protocol_type, (protocol.name for protocol in joining.protocols)):
        raise InconsistentGroupProtocol("a member must offer a protocol")
    former = shard.groups.get(joining.group_id)
    for tombstone in () if former is None else former.tombstones():
        shard.write(turn, tombstone.key, tombstone.value)
    shard.groups[joining.group_id] = group
    turn.records.append(snapshot(group))
    return group


def _has_room(group: ClassicGroup, member_id: str, group_max_size: int) -> bool:
    """Return whether a group that may be at its maximum takes this client.

    A group that is over it, because the setting was lowered, gets rid of those who join last.
    """
    if group.is_empty:
        return True
    member = group.members.get(member_id)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        is_waiting = member is not None and member.awaiting_join is not None
        return is_waiting or group.awaiting_join_count < group_max_size
    return member is not None or len(group.members) < group_max_size


def _turn_away(shard: ShardState, turn: Turn, group: ClassicGroup, joining: Joining) -> None:
    refusal = join_refused(ErrorCode.group_max_size_reached, NO_MEMBER_ID, joining.parked.api_version)
    turn.answer(joining.parked.token, refusal)
    member = group.members.get(joining.member_id)
    if member is not None:
        remove_member(shard, turn, group, member)
    elif joining.member_id in group.pending_join:
        group.remove(joining.member_id)
        shard.timers.cancel(MemberSession(group.group_id, joining.member_id))
    complete_if_joined_again(shard, turn, group)


def _join_new(shard: ShardState, turn: Turn, group: ClassicGroup, joining: Joining) -> None:
    """Give a dynamic client an id; it must come again with it, so that clients which give up leave no member."""
    member_id = f"{joining.client_id}-{shard.draw_uuid()}"
    if joining.parked.api_version < FIRST_MEMBER_ID_REQUIRED:
        _add_member(shard, turn, group, joining, member_id)
        return
    group.pending_join.add(member_id)
    shard.timers.set(MemberSession(group.group_id, member_id), turn.now_ms + joining.session_timeout_ms)
    refusal = join_refused(ErrorCode.member_id_required, member_id, joining.parked.api_version)
    turn.answer(joining.parked.token, refusal)


def _join_instance(shard: ShardState, turn: Turn, group: ClassicGroup, joining: Joining, instance_id: str) -> None:
    """Take a static client in, or let it take over from its former self."""
    member_id = f"{instance_id}-{shard.draw_uuid()}"
    former_id = group.static_members.get(instance_id)
    if former_id is None:
        _add_member(shard, turn, group, joining, member_id)
        return
    former = group.members[former_id]
    successor = _successor(joining, former, member_id)
    is_stable = group.state is ClassicGroupState.STABLE
    if not (is_stable and _replaced_quietly(shard, turn, group, (former, successor), joining.parked)):
        _replace_and_rebalance(shard, turn, group, (former, successor), joining)


def _add_member(shard: ShardState, turn: Turn, group: ClassicGroup, joining: Joining, member_id: str) -> None:
    member = ClassicMember(
        member_id=member_id,
        instance_id=joining.instance_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=joining.session_timeout_ms,
        protocols=joining.protocols,
        is_new=True,
    )
    group.add(member, joining.protocol_type)
    group.park_join(member, joining.parked)
    group.new_member_added = True
    begin_first_session(shard, group, member, turn.now_ms)
    rebalance_or_complete(shard, turn, group)


def _join_known(shard: ShardState, turn: Turn, group: ClassicGroup, joining: Joining) -> None:
    """Take a client that has an id already: one that was given out, or that of a member."""
    if joining.member_id in group.pending_join:
        if joining.instance_id is not None:
            raise UnknownMemberId(f"{joining.member_id} was given to a dynamic member")
        _add_member(shard, turn, group, joining, joining.member_id)
        return
    member = group.check_member(joining.member_id, joining.instance_id)
    # The leader of a stable group joins again when what it assigns has changed, such as a topic's partitions. Who
    # repeats itself otherwise has missed our answer.
    is_repetition = joining.protocols == member.protocols and (
        group.state is ClassicGroupState.COMPLETING_REBALANCE
        or (group.state is ClassicGroupState.STABLE and member.member_id != group.leader_id)
    )
    if is_repetition:
        renew_session(shard, group, member, turn.now_ms)
        turn.answer(joining.parked.token, joined(group, member))
        return
    group.set_protocols(member, joining.protocols)
    member.rebalance_timeout_ms = joining.rebalance_timeout_ms
    member.session_timeout_ms = joining.session_timeout_ms
    _park(turn, group, member, joining.parked)
    rebalance_or_complete(shard, turn, group)


def _park(turn: Turn, group: ClassicGroup, member: ClassicMember, parked: ParkedRequest) -> None:
    """Let the JoinGroup wait; an earlier one of the same member, whose client has most likely gone, may try again."""
    earlier = group.park_join(member, parked)
    if earlier is not None:
        refusal = join_refused(ErrorCode.rebalance_in_progress, member.member_id, earlier.api_version)
        turn.answer(earlier.token, refusal)


def _successor(joining: Joining, former: ClassicMember, member_id: str) -> ClassicMember:
    return replace(
        former,
        member_id=member_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        protocols=joining.protocols,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=joining.session_timeout_ms,
        is_new=False,
        awaiting_join=None,
        awaiting_sync=None,
    )


Restart = tuple[ClassicMember, ClassicMember]
"""A static member before and after it was restarted."""


def _replaced_quietly(
    shard: ShardState, turn: Turn, group: ClassicGroup, restart: Restart, parked: ParkedRequest
) -> bool:
    """Replace a static member without a rebalance; return False, with all as it was, if the protocol would change."""
    former, successor = restart
    former_leader_id = group.leader_id
    group.replace_static_member(former, successor)
    if group.select_protocol() != group.protocol_name:
        group.replace_static_member(successor, former)
        return False
    record = snapshot(group)
    if not fits(record, shard.settings.batch_bytes_max):
        group.replace_static_member(successor, former)
        raise KafkaError(f"group {group.group_id} is too large to be stored with what {former.instance_id} says")
    turn.records.append(record)
    group.update_subscribed_topics()
    _pass_session_on(shard, turn, group, restart)
    if parked.api_version >= FIRST_SKIP_ASSIGNMENT:
        response = joined(group, successor, skip_assignment=group.leader_id == successor.member_id)
    else:
        # A leader that cannot be told to skip the assignment must not know that it leads.
        response = joined(group, successor, leader_id=former_leader_id)
    turn.answer(parked.token, response)
    return True


def _replace_and_rebalance(
    shard: ShardState, turn: Turn, group: ClassicGroup, restart: Restart, joining: Joining
) -> None:
    """Replace a static member, and let the others join with it: the leader may already be assigning to the former."""
    former, successor = restart
    refuse_waiting(turn, group, former, ErrorCode.fenced_instance_id, member_id=former.member_id)
    group.replace_static_member(former, successor)
    _pass_session_on(shard, turn, group, restart)
    _park(turn, group, successor, joining.parked)
    rebalance_or_complete(shard, turn, group)


def _pass_session_on(shard: ShardState, turn: Turn, group: ClassicGroup, restart: Restart) -> None:
    former, successor = restart
    shard.timers.cancel(MemberSession(group.group_id, former.member_id))
    renew_session(shard, group, successor, turn.now_ms)
