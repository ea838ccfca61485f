"""SyncGroup to a classic group: the leader brings the assignment, everybody else asks for theirs.

Source: `classicGroupSyncToClassicGroup` of GroupMetadataManager in Kafka.
"""

from kio.schema.errors import ErrorCode
from kio.schema.sync_group.v5.request import SyncGroupRequest

from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.member import ParkedRequest
from ottla_group_coordinator.classic.rebalance import mark_synced, renew_session, store_assignments
from ottla_group_coordinator.classic.responses import sync_refused, synced
from ottla_group_coordinator.classic.state import ClassicGroupState
from ottla_group_coordinator.errors import InconsistentGroupProtocol, RebalanceInProgress
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState


def sync(
    shard: ShardState, turn: Turn, group: ClassicGroup, request: SyncGroupRequest, parked: ParkedRequest
) -> None:
    """Take a SyncGroup of a group that has members.

    Raises:
        UnknownMemberId, FencedInstanceId, IllegalGeneration: the client is not in this generation.
        RebalanceInProgress: it must join again.
        InconsistentGroupProtocol: it has understood another protocol (KIP-559).
    """
    member = group.check_member(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    # This comes before the protocol, since clients give up when they hear that theirs is wrong. In a group that was
    # downgraded, members have been told different ones, and agree on one when they join again.
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        raise RebalanceInProgress
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        raise InconsistentGroupProtocol(
            f"group {group.group_id} has agreed on {group.protocol_name!r} of type {group.protocol_type!r}"
        )
    mark_synced(shard, group, member)
    if group.state is ClassicGroupState.STABLE:
        renew_session(shard, group, member, turn.now_ms)  # as with every other answer; Kafka's coordinator does not
        turn.answer(parked.token, synced(group, member))
        return
    earlier, member.awaiting_sync = member.awaiting_sync, parked
    if earlier is not None:
        # Whoever asked before has most likely gone; if not, joining again is how it finds out where it stands.
        turn.answer(earlier.token, sync_refused(ErrorCode.rebalance_in_progress))
    if member.member_id == group.leader_id:
        store_assignments(shard, turn, group, {part.member_id: part.assignment for part in request.assignments})


def _differs(said: str | None, agreed: str | None) -> bool:
    return said is not None and said != agreed
