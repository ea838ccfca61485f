"""JoinGroup and SyncGroup responses, in kio's newest classes; older ones are made of these where they are encoded."""

from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.schema.sync_group.v5.response import SyncGroupResponse
from kio.static.primitive import i32, i32Timedelta

from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.member import ClassicMember

NO_THROTTLE = i32Timedelta.parse(timedelta(0))
NO_GENERATION = -1
NO_LEADER = ""
FIRST_NULLABLE_PROTOCOL_NAME = 7


def joined(
    group: ClassicGroup,
    member: ClassicMember,
    *,
    leader_id: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """Tell a member which generation it is in; the leader learns of all members, so that it can assign.

    Args:
        group: it has chosen a protocol.
        member: of this group.
        leader_id: whom to call the leader, if not the true one.
        skip_assignment: whether a leader must leave the assignment as it is (KIP-814).
    """
    leader_id = leader_id or group.leader_id or NO_LEADER
    assert group.protocol_name is not None, "members are answered when a protocol is chosen"
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        generation_id=i32(group.generation),
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id,
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=_described(group, group.protocol_name) if leader_id == member.member_id else (),
    )


def _described(group: ClassicGroup, protocol_name: str) -> tuple[JoinGroupResponseMember, ...]:
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(protocol_name),
        )
        for member in group.members.values()
    )


def join_refused(error: ErrorCode, member_id: str, api_version: int) -> JoinGroupResponse:
    """Tell a client why it has not joined."""
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        generation_id=i32(NO_GENERATION),
        protocol_name=None if api_version >= FIRST_NULLABLE_PROTOCOL_NAME else "",
        leader=NO_LEADER,
        member_id=member_id,
        members=(),
    )


def synced(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """Tell a member its assignment."""
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    """Tell a member why it has no assignment."""
    return SyncGroupResponse(throttle_time=NO_THROTTLE, error_code=error, assignment=b"")
