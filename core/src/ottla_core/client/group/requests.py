"""The group protocol's requests, from what the member wants to send; and its answers, as the member takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.join_group.v9.response import JoinGroupResponse
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.sync_group.v5.response import SyncGroupResponse
from kio.schema.types import GroupId
from kio.static.primitive import i32, i32Timedelta

from ottla_core.client.group.messages import Joined, SendHeartbeat, SendJoin, SendSync, Synced

REASON_CHARACTERS_MAX = 255
"""Brokers refuse longer reasons (KIP-800)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTerms:
    """What a group is, and how patient its coordinator shall be with a member.

    Attributes:
        group_id: its name.
        protocol_type: what its members are, such as `connect`.
        session_timeout_ms: after so long without a heartbeat a member is removed.
        rebalance_timeout_ms: so long may it take to join a rebalance.
    """

    group_id: str
    protocol_type: str
    session_timeout_ms: int
    rebalance_timeout_ms: int


def join_request(terms: GroupTerms, action: SendJoin, protocols: Sequence[tuple[str, bytes]]) -> JoinGroupRequest:
    """Return a JoinGroup; `protocols` are names, and what the member says of itself in each."""
    return JoinGroupRequest(
        group_id=GroupId(terms.group_id),
        session_timeout=_milliseconds(terms.session_timeout_ms),
        rebalance_timeout=_milliseconds(terms.rebalance_timeout_ms),
        member_id=action.member_id,
        protocol_type=terms.protocol_type,
        protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols),
        reason=action.reason[:REASON_CHARACTERS_MAX],
    )


def joined_of(answer: Any) -> Joined:
    """Return what a JoinGroup's response says."""
    response: JoinGroupResponse = answer
    return Joined(
        error=response.error_code,
        member_id=response.member_id,
        generation=response.generation_id,
        protocol=response.protocol_name or "",
        leader=response.leader,
        members={each.member_id: each.metadata for each in response.members},
    )


def sync_request(terms: GroupTerms, action: SendSync) -> SyncGroupRequest:
    """Return a SyncGroup."""
    return SyncGroupRequest(
        group_id=GroupId(terms.group_id),
        generation_id=i32(action.generation),
        member_id=action.member_id,
        protocol_type=terms.protocol_type,
        protocol_name=action.protocol,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in action.assignments.items()
        ),
    )


def synced_of(answer: Any) -> Synced:
    """Return what a SyncGroup's response says."""
    response: SyncGroupResponse = answer
    return Synced(error=response.error_code, assignment=response.assignment)


def heartbeat_request(group_id: str, action: SendHeartbeat) -> HeartbeatRequest:
    """Return a Heartbeat."""
    return HeartbeatRequest(
        group_id=GroupId(group_id), generation_id=i32(action.generation), member_id=action.member_id
    )


def leave_request(group_id: str, member_id: str, reason: str) -> LeaveGroupRequest:
    """Return a LeaveGroup of one member."""
    return LeaveGroupRequest(
        group_id=GroupId(group_id), members=(MemberIdentity(member_id=member_id, reason=reason),)
    )


def _milliseconds(count: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=count))
