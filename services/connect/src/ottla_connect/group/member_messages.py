"""What the member tells its shell to do, and what the shell tells it of the coordinator's answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from ottla_connect.group.view import Assignment, Revoked


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """A worker's settings that matter to its membership.

    Attributes:
        url: where its REST API is.
        protocols: names of the protocols it offers, in order of preference.
        session_timeout_ms: after so long without a heartbeat the coordinator gives its work to others.
        rebalance_timeout_ms: so long may it take to join a rebalance.
        heartbeat_interval_ms: between heartbeats.
        delay_max_ms: how long work is held back for a worker that has gone.
    """

    url: str
    protocols: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    delay_max_ms: int


# What the shell has to do. A ticket is handed back with the answer; the answer to an old one does not count.


@dataclass(frozen=True, slots=True, kw_only=True)
class SendJoin:
    """Send a JoinGroup with `Member.metadata`, then call `joined` or `join_unanswered`."""

    ticket: int
    member_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MakePlan:
    """We lead: wait until the config topic is read up to this offset, or for a while, and call `plan`."""

    ticket: int
    config_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSync:
    """Send a SyncGroup, then call `synced` or `sync_unanswered`; `assignments` are the leader's, by member id."""

    ticket: int
    member_id: str
    generation: int
    protocol: str
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHeartbeat:
    """Send a Heartbeat beside all else, then call `heartbeat_answered` or `heartbeat_unanswered`."""

    ticket: int
    member_id: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Tell the worker what it shall run, and what it must stop; when it has, call `taken`."""

    assignment: Assignment
    revoked: Revoked


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareLost:
    """Tell the worker to stop everything; when it has, call `taken`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantLease:
    """Until then nobody else runs what this worker runs."""

    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonRequest:
    """Do not wait for the answer to a JoinGroup, plan or SyncGroup any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetCoordinator:
    """Another broker may be the coordinator: ask again before the next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn:
    """Log that somebody in the group misbehaves."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """The worker cannot be a member; nothing else follows."""

    reason: str


Action = (
    SendJoin
    | MakePlan
    | SendSync
    | SendHeartbeat
    | Deliver
    | DeclareLost
    | GrantLease
    | AbandonRequest
    | ForgetCoordinator
    | Warn
    | Fail
)


# The coordinator's answers.


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
