"""The phases of a rebalance, and the deadlines that drive them.

A rebalance begins with `prepare_rebalance`: the members are waited for until all have joined or the longest of their
rebalance timeouts is over (`JoinTimeout`). A group that was empty waits for more members first, a little longer each
time one comes (`InitialDelay`, KIP-134). `complete_join` then begins the generation and answers every JoinGroup. From
there the members have one more rebalance timeout to send SyncGroup (`SyncTimeout`); the leader's carries the
assignment. All the while each member must be heard of within its session timeout (`MemberSession`).

A session's timer is seldom moved: what is heard of a member moves `session_deadline_ms`, and the timer looks there
when it is due. Heartbeats are therefore cheap.

Source: the `classicGroup…`, `prepareRebalance` and `expire…` methods of GroupMetadataManager in Kafka.
"""

from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.member import ClassicMember
from ottla_group_coordinator.classic.responses import join_refused, joined, sync_refused, synced
from ottla_group_coordinator.classic.snapshot import fits, snapshot
from ottla_group_coordinator.classic.state import ClassicGroupState
from ottla_group_coordinator.rebalance_counts import Rebalance
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

ABSENT_MEMBERS_PAUSE_MS_MIN = 1_000
"""How long at least a group of static members, none of whom is there, is let be before it is looked at again."""


@dataclass(frozen=True, slots=True)
class MemberSession:
    """A member, or an id that was given out, was not heard of for its session timeout."""

    group_id: str
    member_id: str

    def expire(self, shard: ShardState, turn: Turn) -> None:
        """Remove the member unless it was heard of since, or waits for us."""
        group = shard.groups.get(self.group_id)
        if not isinstance(group, ClassicGroup):
            return
        if self.member_id in group.pending_join:
            group.remove(self.member_id)
            _complete_if_joined(shard, turn, group)
        elif (member := group.members.get(self.member_id)) is None:
            return
        elif member.session_deadline_ms > turn.now_ms:
            shard.timers.set(self, member.session_deadline_ms)
        elif member.is_new or (member.awaiting_join is None and member.awaiting_sync is None):
            # Whoever waits for our answer need not heartbeat; its session begins anew with the answer. A new member
            # is the exception: if it has given up and comes again, it does so under another id.
            remove_member(shard, turn, group, member)
            if group.can_rebalance:
                prepare_rebalance(shard, turn, group)
            else:
                _complete_if_joined(shard, turn, group)


@dataclass(frozen=True, slots=True)
class JoinTimeout:
    """Members that have not joined again by now are left behind."""

    group_id: str

    def expire(self, shard: ShardState, turn: Turn) -> None:
        """Go on with those that have."""
        group = shard.groups.get(self.group_id)
        assert isinstance(group, ClassicGroup), "cancelled when the group goes"
        complete_join(shard, turn, group)


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """A group that was empty has waited for more members."""

    group_id: str

    def expire(self, shard: ShardState, turn: Turn) -> None:
        """Wait once more if another has come, but no longer than the rebalance timeout altogether."""
        group = shard.groups.get(self.group_id)
        assert isinstance(group, ClassicGroup), "cancelled when the group goes"
        if group.new_member_added and turn.now_ms < group.initial_delay_deadline_ms:
            group.new_member_added = False
            delay_end_ms = turn.now_ms + shard.settings.initial_rebalance_delay_ms
            shard.timers.set(self, min(delay_end_ms, group.initial_delay_deadline_ms))
        else:
            complete_join(shard, turn, group)


@dataclass(frozen=True, slots=True)
class SyncTimeout:
    """Members that have not asked for their assignment by now are taken for dead."""

    group_id: str

    def expire(self, shard: ShardState, turn: Turn) -> None:
        """Remove them, and rebalance without them."""
        group = shard.groups.get(self.group_id)
        assert isinstance(group, ClassicGroup), "cancelled when the group goes"
        assert group.pending_sync, "cancelled with the last SyncGroup"
        for member_id in sorted(group.pending_sync):
            remove_member(shard, turn, group, group.members[member_id])
        prepare_rebalance(shard, turn, group)


def renew_session(shard: ShardState, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
    """Give a member a whole session timeout from now."""
    _set_session(shard, group, member, now_ms + member.session_timeout_ms)


def begin_first_session(shard: ShardState, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
    """Give a new member, who cannot heartbeat before it is answered, a long time."""
    _set_session(shard, group, member, now_ms + shard.settings.new_member_join_timeout_ms)


def _set_session(shard: ShardState, group: ClassicGroup, member: ClassicMember, deadline_ms: int) -> None:
    member.session_deadline_ms = deadline_ms
    timer = MemberSession(group.group_id, member.member_id)
    due_ms = shard.timers.deadline_ms(timer)
    if due_ms is None or due_ms > deadline_ms:
        shard.timers.set(timer, deadline_ms)


def forget_timers(shard: ShardState, group: ClassicGroup) -> None:
    """Cancel whatever is due for a group that goes, or becomes one of another protocol."""
    for member_id in (*group.members, *group.pending_join):
        shard.timers.cancel(MemberSession(group.group_id, member_id))
    shard.timers.cancel(JoinTimeout(group.group_id))
    shard.timers.cancel(InitialDelay(group.group_id))
    shard.timers.cancel(SyncTimeout(group.group_id))


def prepare_rebalance(shard: ShardState, turn: Turn, group: ClassicGroup) -> None:
    """Wait for all members to join; go on at once if they have."""
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        refuse_assignments(shard, turn, group, ErrorCode.rebalance_in_progress)
    group.pending_sync.clear()
    shard.timers.cancel(SyncTimeout(group.group_id))
    was_empty = group.is_empty
    if group.rebalance_began_ms is None:  # else another one goes on, with other members
        group.rebalance_began_ms = turn.now_ms
    group.enter(ClassicGroupState.PREPARING_REBALANCE, turn.timestamp_ms)
    if was_empty:
        delay_ms = shard.settings.initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_delay_deadline_ms = turn.now_ms + max(delay_ms, group.rebalance_timeout_ms)
        shard.timers.set(InitialDelay(group.group_id), turn.now_ms + delay_ms)
    elif group.has_all_members_joined:
        complete_join(shard, turn, group)
    else:
        shard.timers.set(JoinTimeout(group.group_id), turn.now_ms + group.rebalance_timeout_ms)


def rebalance_or_complete(shard: ShardState, turn: Turn, group: ClassicGroup) -> None:
    """React to a member that has come, gone or changed: rebalance, or see whether the present one can go on."""
    if group.can_rebalance:
        prepare_rebalance(shard, turn, group)
    else:
        complete_if_joined_again(shard, turn, group)


def complete_if_joined_again(shard: ShardState, turn: Turn, group: ClassicGroup) -> None:
    """End the joining phase if nobody is waited for; a first rebalance keeps its delay."""
    if group.previous_state is not ClassicGroupState.EMPTY:
        _complete_if_joined(shard, turn, group)


def _complete_if_joined(shard: ShardState, turn: Turn, group: ClassicGroup) -> None:
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.has_all_members_joined:
        complete_join(shard, turn, group)


def complete_join(shard: ShardState, turn: Turn, group: ClassicGroup) -> None:
    """End the joining phase: begin a generation with those that have joined, and static members that may yet."""
    shard.timers.cancel(JoinTimeout(group.group_id))
    shard.timers.cancel(InitialDelay(group.group_id))
    for member in [m for m in group.members.values() if m.awaiting_join is None and not m.is_static]:
        remove_member(shard, turn, group, member)
    if group.members and not group.elect_joined_leader():
        # Only static members are left, and none of them is there. Their sessions will end, or one of them comes.
        # They may have asked for no patience at all; a timer that is due at once, again and again, would never end.
        pause_ms = max(group.rebalance_timeout_ms, ABSENT_MEMBERS_PAUSE_MS_MIN)
        shard.timers.set(JoinTimeout(group.group_id), turn.now_ms + pause_ms)
        return
    group.begin_generation(turn.timestamp_ms)
    if group.is_empty:
        group.rebalance_began_ms = None
        turn.records.append(snapshot(group))
    else:
        _announce_generation(shard, turn, group)


def _announce_generation(shard: ShardState, turn: Turn, group: ClassicGroup) -> None:
    for member in group.members.values():
        request = group.take_join(member)
        if request is not None:
            turn.answer(request.token, joined(group, member))
        member.is_new = False
        renew_session(shard, group, member, turn.now_ms)
    group.pending_sync.update(group.members)
    shard.timers.set(SyncTimeout(group.group_id), turn.now_ms + group.rebalance_timeout_ms)


def mark_synced(shard: ShardState, group: ClassicGroup, member: ClassicMember) -> None:
    """Wait no longer for a member's SyncGroup."""
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        shard.timers.cancel(SyncTimeout(group.group_id))


def store_assignments(shard: ShardState, turn: Turn, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    """Store what the leader has assigned, and tell every member that asks; members left out get nothing.

    A generation that is too large to be stored is given up.
    """
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.enter(ClassicGroupState.STABLE, turn.timestamp_ms)
    record = snapshot(group)
    if not fits(record, shard.settings.batch_bytes_max):
        refuse_assignments(shard, turn, group, ErrorCode.unknown_server_error)
        prepare_rebalance(shard, turn, group)
        return
    turn.records.append(record)
    _count_rebalance(turn, group)
    for member in group.members.values():
        request, member.awaiting_sync = member.awaiting_sync, None
        if request is not None:
            turn.answer(request.token, synced(group, member))
            renew_session(shard, group, member, turn.now_ms)


def _count_rebalance(turn: Turn, group: ClassicGroup) -> None:
    """Note that the group's rebalance is complete; of one that began under a former owner nothing is known."""
    if group.rebalance_began_ms is not None:
        turn.counted += (Rebalance(group.type.value, turn.now_ms - group.rebalance_began_ms),)
        group.rebalance_began_ms = None


def refuse_assignments(shard: ShardState, turn: Turn, group: ClassicGroup, error: ErrorCode) -> None:
    """Take back the generation's assignments, and tell everybody who waits for one."""
    for member in group.members.values():
        member.assignment = b""
        request, member.awaiting_sync = member.awaiting_sync, None
        if request is not None:
            turn.answer(request.token, sync_refused(error))
            renew_session(shard, group, member, turn.now_ms)


def remove_member(shard: ShardState, turn: Turn, group: ClassicGroup, member: ClassicMember) -> None:
    """Take a member out; if it still waits for an answer, it is told so."""
    refuse_waiting(turn, group, member, ErrorCode.unknown_member_id, member_id="")
    shard.timers.cancel(MemberSession(group.group_id, member.member_id))
    group.remove(member.member_id)


def refuse_waiting(
    turn: Turn, group: ClassicGroup, member: ClassicMember, error: ErrorCode, *, member_id: str
) -> None:
    """Answer a member's waiting requests with an error; without a member id if the client shall forget its own."""
    request = group.take_join(member)
    if request is not None:
        turn.answer(request.token, join_refused(error, member_id, request.api_version))
    request, member.awaiting_sync = member.awaiting_sync, None
    if request is not None:
        turn.answer(request.token, sync_refused(error))
