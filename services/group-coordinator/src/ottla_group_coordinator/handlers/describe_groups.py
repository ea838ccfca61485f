"""DescribeGroups: the state and the members of classic groups.

A group that does not exist is described as dead; from version 6 on it is an error (KIP-1043).
"""

from dataclasses import replace

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId

from ottla_core.authorized_operations import GROUP_OPERATIONS
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.member import ClassicMember
from ottla_group_coordinator.classic.responses import NO_THROTTLE
from ottla_group_coordinator.classic.state import ClassicGroupState
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

FIRST_GROUP_ID_NOT_FOUND = 6


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Answer a DescribeGroups."""
    message: DescribeGroupsRequest = request.newest()
    groups = tuple(_describe(shard, group_id, request.api_version) for group_id in message.groups)
    if message.include_authorized_operations:
        groups = tuple(map(_with_operations, groups))
    turn.answer(request.token, DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=groups))


def _with_operations(group: DescribedGroup) -> DescribedGroup:
    if group.error_code is not ErrorCode.none:
        return group
    return replace(group, authorized_operations=GROUP_OPERATIONS)


def _describe(shard: ShardState, group_id: GroupId, api_version: int) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        return _unknown(group_id, is_of_other_type=group is not None, api_version=api_version)
    is_stable = group.state is ClassicGroupState.STABLE
    protocol_name = group.protocol_name or "" if is_stable else ""
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=protocol_name,
        members=tuple(
            _described_member(member, member.metadata(protocol_name) if is_stable else b"")
            for member in group.members.values()
        ),
    )


def _described_member(member: ClassicMember, metadata: bytes) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=member.assignment,
    )


def _unknown(group_id: GroupId, *, is_of_other_type: bool, api_version: int) -> DescribedGroup:
    error, text = ErrorCode.none, None
    if api_version >= FIRST_GROUP_ID_NOT_FOUND:
        error = ErrorCode.group_id_not_found
        text = f"Group {group_id} is not a classic group." if is_of_other_type else f"Group {group_id} not found."
    return DescribedGroup(
        error_code=error,
        error_message=text,
        group_id=group_id,
        group_state=ClassicGroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=(),
    )
