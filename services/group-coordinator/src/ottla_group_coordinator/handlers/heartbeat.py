"""Heartbeat: a member is alive, and learns whether it must join again."""

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.rebalance import renew_session
from ottla_group_coordinator.classic.responses import NO_THROTTLE
from ottla_group_coordinator.classic.state import ClassicGroupState
from ottla_group_coordinator.consumer import classic_members
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.errors import InvalidGroupId, RebalanceInProgress, UnknownMemberId
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

ALIVE = HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none)


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Answer a Heartbeat."""
    message: HeartbeatRequest = request.newest()
    if not message.group_id:
        raise InvalidGroupId("a group that has members needs a name")
    group = shard.groups.get(message.group_id)
    if group is None:
        raise UnknownMemberId(f"there is no group {message.group_id}")
    if isinstance(group, ConsumerGroup):
        classic_members.heartbeat(shard, turn, group, message)
    else:
        assert isinstance(group, ClassicGroup)
        _heartbeat(shard, group, message, turn.now_ms)
    turn.answer(request.token, ALIVE)


def _heartbeat(shard: ShardState, group: ClassicGroup, message: HeartbeatRequest, now_ms: int) -> None:
    """Begin a member's session anew.

    Raises:
        UnknownMemberId, FencedInstanceId, IllegalGeneration: it is no member of this generation.
        RebalanceInProgress: it is, and must join again.
    """
    member = group.check_member(message.member_id, message.group_instance_id)
    group.check_generation(message.generation_id)
    renew_session(shard, group, member, now_ms)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        raise RebalanceInProgress
