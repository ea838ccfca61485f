"""What the member tells its shell to do, and what the shell tells it of the coordinator's answers. Pure."""

from dataclasses import dataclass

from ottla_connect.group.view import Assignment, Revoked
from ottla_core.client.group.messages import SendHeartbeat, SendJoin, SendSync


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
class MakePlan:
    """We lead: wait until the config topic is read up to this offset, or for a while, and call `plan`."""

    ticket: int
    config_offset: int


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
