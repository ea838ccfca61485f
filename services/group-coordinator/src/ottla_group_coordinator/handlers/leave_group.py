"""LeaveGroup: members go, so that the others need not wait for their sessions to end.

Up to version 2 a request names one member, and its response has one error for it; since then there are several.
"""

from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.leave import leave, left
from ottla_group_coordinator.classic.responses import NO_THROTTLE
from ottla_group_coordinator.consumer import classic_members
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.errors import InvalidGroupId
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

FIRST_BATCHED = 3


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Answer a LeaveGroup."""
    if not request.message.group_id:
        raise InvalidGroupId("a group that has members needs a name")
    leaving = _leaving(request)
    group = shard.groups.get(request.message.group_id)
    if group is None:
        responses = tuple(left(identity, ErrorCode.unknown_member_id) for identity in leaving)
    elif isinstance(group, ConsumerGroup):
        responses = classic_members.leave(shard, turn, group, leaving)
    else:
        assert isinstance(group, ClassicGroup)
        responses = leave(shard, turn, group, leaving)
    turn.answer(request.token, _response(responses, request.api_version))


def _leaving(request: GroupRequest) -> tuple[MemberIdentity, ...]:
    if request.api_version < FIRST_BATCHED:
        return (MemberIdentity(member_id=request.message.member_id),)
    message: LeaveGroupRequest = request.newest()
    return message.members


def _response(responses: tuple[MemberResponse, ...], api_version: int) -> LeaveGroupResponse:
    error = responses[0].error_code if api_version < FIRST_BATCHED else ErrorCode.none
    return LeaveGroupResponse(throttle_time=NO_THROTTLE, error_code=error, members=responses)
