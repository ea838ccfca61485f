"""A member of a classic group, as plain data."""

from dataclasses import dataclass
from typing import NamedTuple

from ottla_group_coordinator.runtime.turn import Token


class MemberProtocol(NamedTuple):
    """A way to divide the work that a member offers; what `metadata` means is the clients' business."""

    name: str
    metadata: bytes


class ParkedRequest(NamedTuple):
    """A JoinGroup or SyncGroup that waits for others; the version decides how it can be answered."""

    token: Token
    api_version: int


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """A member.

    Attributes:
        instance_id: the `group.instance.id` of a static member.
        protocols: what the member offers, what it likes best first; no name twice.
        assignment: its part of the work in the present generation, written by the leader.
        awaiting_join: its JoinGroup, while the group waits for the others; set by the group, which counts them.
        awaiting_sync: its SyncGroup, while the group waits for the leader.
        is_new: whether it has joined for the first time and is not answered yet. It does not know its id, so it
            cannot heartbeat, and is removed if the rebalance lasts too long.
        session_deadline_ms: when it is taken for dead, unless it is heard of. The session's timer may be due
            earlier, and then looks here (see `rebalance.MemberSession`).
    """

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    awaiting_join: ParkedRequest | None = None
    awaiting_sync: ParkedRequest | None = None
    is_new: bool = False
    session_deadline_ms: int = 0

    @property
    def is_static(self) -> bool:
        """Whether the member keeps its place when it restarts."""
        return self.instance_id is not None

    def metadata(self, protocol_name: str) -> bytes:
        """Return what the member says under a protocol that it offers."""
        return next(protocol.metadata for protocol in self.protocols if protocol.name == protocol_name)
