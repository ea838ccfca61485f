"""SyncGroup: bring the generation's assignment, or ask for one's own; answered when the leader has brought it."""

from kio.schema.sync_group.v5.request import SyncGroupRequest

from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.member import ParkedRequest
from ottla_group_coordinator.classic.sync import sync
from ottla_group_coordinator.consumer import classic_members
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.errors import InvalidGroupId, UnknownMemberId
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Take a SyncGroup; it is answered now or when the leader's has come."""
    message: SyncGroupRequest = request.newest()
    if not message.group_id:
        raise InvalidGroupId("a group that has members needs a name")
    group = shard.groups.get(message.group_id)
    if group is None or group.is_empty:
        raise UnknownMemberId(f"group {message.group_id} has no members")
    parked = ParkedRequest(request.token, request.api_version)
    if isinstance(group, ConsumerGroup):
        classic_members.sync(shard, turn, group, message, parked)
    else:
        assert isinstance(group, ClassicGroup)
        sync(shard, turn, group, message, parked)
