"""What a member wants to send to its coordinator, and the coordinator's answers as the member takes them.

A ticket is handed back with the answer; the answer to an old one does not count.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class SendJoin:
    """Send a JoinGroup with what the member says of itself, and tell it of the answer."""

    ticket: int
    member_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSync:
    """Send a SyncGroup, and tell the member of the answer; `assignments` are the leader's, by member id."""

    ticket: int
    member_id: str
    generation: int
    protocol: str
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHeartbeat:
    """Send a Heartbeat beside all else, and tell the member of the answer."""

    ticket: int
    member_id: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """JoinGroup's answer; `members` is the leader's only: the states of all members."""

    error: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """SyncGroup's answer."""

    error: ErrorCode
    assignment: bytes = b""
