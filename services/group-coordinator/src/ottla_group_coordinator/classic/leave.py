"""LeaveGroup to a classic group: members go of their own will, or are removed by an administrator (KIP-345).

Source: `classicGroupLeaveToClassicGroup` of GroupMetadataManager in Kafka.
"""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.leave_group.v5.response import MemberResponse

from ottla_core.errors import KafkaError
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.rebalance import MemberSession, rebalance_or_complete, remove_member
from ottla_group_coordinator.errors import UnknownMemberId
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

if TYPE_CHECKING:
    from collections.abc import Sequence


def leave(
    shard: ShardState, turn: Turn, group: ClassicGroup, leaving: "Sequence[MemberIdentity]"
) -> tuple[MemberResponse, ...]:
    """Remove members, then rebalance once for all; return what has become of each."""
    responses = []
    for identity in leaving:
        error = ErrorCode.none
        try:
            _remove(shard, turn, group, identity)
        except KafkaError as refused:
            error = refused.code
        responses.append(left(identity, error))
    if not group.is_empty and any(response.error_code is ErrorCode.none for response in responses):
        rebalance_or_complete(shard, turn, group)
    return tuple(responses)


def left(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    """Return the part of a response that is about one member."""
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
    )


def _remove(shard: ShardState, turn: Turn, group: ClassicGroup, identity: MemberIdentity) -> None:
    if identity.member_id in group.pending_join:
        group.remove(identity.member_id)
        shard.timers.cancel(MemberSession(group.group_id, identity.member_id))
        return
    # An administrator names the instance alone.
    member_id = identity.member_id or group.static_members.get(identity.group_instance_id or "")
    if member_id is None:
        raise UnknownMemberId(f"group {group.group_id} has no instance {identity.group_instance_id!r}")
    remove_member(shard, turn, group, group.check_member(member_id, identity.group_instance_id))
