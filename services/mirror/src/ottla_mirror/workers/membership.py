"""A worker's membership in the group of a target: it joins, hears its share, and sends heartbeats.

    joining -> (the leader shares out) -> syncing -> inside -> joining …

A rebalance stops nothing: copies go on while the group settles, since two workers may copy the same partition. So
this is one loop without states to keep: whatever goes wrong, the worker joins again. While a JoinGroup or SyncGroup
waits for the other workers the coordinator expects no heartbeats.

What only the leader may do it does under a lease (`MembershipLease`): it ends before the coordinator can have
made another worker leader, also if this process was paused.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog
from kio.schema.errors import ErrorCode

from ottla_core.client.errors import AuthenticationFailed, Refused, Unreachable, UnsupportedByBroker
from ottla_core.client.group.coordinator_client import ConnectionPurpose, CoordinatorClient
from ottla_core.client.group.membership_lease import MembershipLease
from ottla_core.client.group.messages import Joined, SendHeartbeat, SendJoin, SendSync
from ottla_core.client.group.requests import (
    GroupTerms,
    heartbeat_request,
    join_request,
    joined_of,
    leave_request,
    sync_request,
    synced_of,
)
from ottla_core.clock import boot_time_s
from ottla_mirror.workers.group_messages import PROTOCOL

REBALANCE_GRACE_S: Final = 5.0
LEAVE_TIMEOUT_S: Final = 2.0
RETRY_PAUSE_S: Final = 0.25
REFUSED_PAUSE_S: Final = 10.0
NO_MEMBER_ID: Final = ""
NO_GENERATION: Final = -1
_ELSEWHERE: Final = frozenset({ErrorCode.coordinator_not_available, ErrorCode.not_coordinator})
_REFUSALS: Final = {
    ErrorCode.group_authorization_failed: "the worker may not use this group (ACL: READ on the group)",
    ErrorCode.inconsistent_group_protocol: "its members are no mirror workers; see group.id",
    ErrorCode.invalid_session_timeout: "session.timeout.ms is not within what the brokers allow",
    ErrorCode.invalid_group_id: "group.id is not valid",
    ErrorCode.group_max_size_reached: "it has as many members as the brokers allow (group.max.size)",
}

log = structlog.get_logger("workers")


class Membership:
    """Keeps a worker a member of one group.

    Args:
        client: asks the coordinator.
        terms: what the group is.
        heartbeat_interval_ms: between heartbeats.
        state: returns what the worker says of itself when it joins.
        share_out: the leader's decision: from what members say of themselves to what each is told.
        on_assigned: takes what the leader says, and whether this worker leads.

    Attributes:
        problem: why it is no member at present; empty if it is.
    """

    def __init__(
        self,
        client: CoordinatorClient,
        terms: GroupTerms,
        *,
        heartbeat_interval_ms: int,
        state: Callable[[], bytes],
        share_out: Callable[[Mapping[str, bytes]], Mapping[str, bytes]],
        on_assigned: Callable[[bytes, bool], Awaitable[None]],
    ) -> None:
        self.problem = "it has not joined yet"
        self._client = client
        self._terms = terms
        self._heartbeat_interval_s = heartbeat_interval_ms / 1000
        self._heartbeat_timeout_s = max(terms.session_timeout_ms / 3000, self._heartbeat_interval_s)
        self._rebalance_timeout_s = terms.rebalance_timeout_ms / 1000 + REBALANCE_GRACE_S
        self._state = state
        self._share_out = share_out
        self._on_assigned = on_assigned
        self._lease = MembershipLease(terms.session_timeout_ms, terms.rebalance_timeout_ms)
        self._member_id = NO_MEMBER_ID
        self._generation = NO_GENERATION
        self._is_leader = False
        self._wants_rejoin = asyncio.Event()
        self._reason = "the worker has started"

    @property
    def leads(self) -> bool:
        """Whether this worker leads, and nobody else can at this moment."""
        until_ms = self._lease.until_ms
        return self._is_leader and until_ms is not None and _now_ms() < until_ms

    @property
    def generation(self) -> int:
        """The group's generation, -1 for none."""
        return self._generation

    def request_rejoin(self, reason: str) -> None:
        """Have a rebalance soon; the coordinator only repeats the assignment unless this worker leads."""
        self._reason = reason
        self._wants_rejoin.set()

    async def run(self) -> None:
        """Be a member until cancelled."""
        while True:
            try:
                joined = await self._join()
                assignment = await self._sync(joined)
                if assignment is None:
                    continue
                self.problem = ""
                await self._on_assigned(assignment, self._is_leader)
                await self._stay()
            except Unreachable as error:
                self._lost_sight(str(error))
                await asyncio.sleep(RETRY_PAUSE_S)
            except (AuthenticationFailed, Refused, UnsupportedByBroker) as error:
                self._lost_sight(str(error))
                await asyncio.sleep(REFUSED_PAUSE_S)

    async def leave(self) -> None:
        """Leave the group, so that the others take over at once."""
        self._lease.end()
        self._is_leader = False
        self._client.abandon(ConnectionPurpose.REBALANCE)
        if self._member_id:
            request = leave_request(self._terms.group_id, self._member_id, "the worker stops")
            try:
                async with asyncio.timeout(LEAVE_TIMEOUT_S):
                    await self._client.ask(ConnectionPurpose.HEARTBEAT, request, timeout_s=LEAVE_TIMEOUT_S)
            except (Unreachable, Refused, TimeoutError) as error:
                log.warning("group not left", group=self._terms.group_id, reason=str(error) or "no answer in time")
        self._client.forget()

    async def _join(self) -> Joined:
        """Join until the group has a generation of which we are part.

        Raises:
            Unreachable: the coordinator does not answer, or not now.
            Refused: it will not have us.
        """
        self._wants_rejoin.clear()
        while True:
            sent_ms = _now_ms()
            action = SendJoin(ticket=0, member_id=self._member_id, reason=self._reason)
            request = join_request(self._terms, action, [(PROTOCOL, self._state())])
            joined = joined_of(await self._ask(ConnectionPurpose.REBALANCE, request, self._rebalance_timeout_s))
            if joined.error is ErrorCode.member_id_required:
                self._member_id = joined.member_id
                continue
            if joined.error is ErrorCode.unknown_member_id:
                self._forget_membership()
                continue
            self._check(joined.error, "JoinGroup")
            self._member_id, self._generation = joined.member_id, joined.generation
            self._is_leader = False  # until it has its own share
            self._lease.in_order(sent_ms)
            return joined

    async def _sync(self, joined: Joined) -> bytes | None:
        """Return what the leader says, None if the group has begun anew meanwhile."""
        leads = joined.leader == joined.member_id
        sent_ms = _now_ms()
        action = SendSync(
            ticket=0,
            member_id=self._member_id,
            generation=self._generation,
            protocol=PROTOCOL,
            assignments=self._share_out(joined.members) if leads else {},
        )
        request = sync_request(self._terms, action)
        synced = synced_of(await self._ask(ConnectionPurpose.REBALANCE, request, self._rebalance_timeout_s))
        if synced.error is ErrorCode.unknown_member_id:
            self._forget_membership()
            return None
        if synced.error in (ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation):
            self._reason = "another rebalance has begun"
            return None
        self._check(synced.error, "SyncGroup")
        self._lease.in_order(sent_ms)
        self._is_leader = leads
        return synced.assignment

    async def _stay(self) -> None:
        """Send heartbeats until there is a reason to join again."""
        while True:
            try:
                async with asyncio.timeout(self._heartbeat_interval_s):
                    await self._wants_rejoin.wait()
                return
            except TimeoutError:
                pass
            sent_ms = _now_ms()
            action = SendHeartbeat(ticket=0, member_id=self._member_id, generation=self._generation)
            request = heartbeat_request(self._terms.group_id, action)
            try:
                answer = await self._ask(ConnectionPurpose.HEARTBEAT, request, self._heartbeat_timeout_s)
            except Unreachable as error:
                self.problem = str(error)
                continue  # the lease runs out by itself, and the next heartbeat asks for the coordinator
            self.problem = ""
            if answer.error_code is ErrorCode.none:
                self._lease.in_order(sent_ms)
            elif answer.error_code is ErrorCode.rebalance_in_progress:
                self._lease.heard(sent_ms)
                self._reason = "a rebalance has begun"
                return
            elif answer.error_code is ErrorCode.unknown_member_id:
                self._forget_membership()
                return
            elif answer.error_code is ErrorCode.illegal_generation:
                self._reason = "the group is in another generation"
                return
            else:
                self._check(answer.error_code, "Heartbeat")

    def _check(self, error: ErrorCode, what: str) -> None:
        """Raise what an error means that the caller has no answer to.

        Raises:
            Unreachable: it passes.
            Refused: it does not.
        """
        if error is ErrorCode.none:
            return
        if error in _REFUSALS:
            raise Refused(f"group {self._terms.group_id}: {error.name.upper()}: {_REFUSALS[error]}")
        if error in _ELSEWHERE:
            self._client.forget()
        self._reason = f"{what} was answered with {error.name}"
        raise Unreachable(f"group {self._terms.group_id}: {what} was answered with {error.name}")

    async def _ask(self, purpose: ConnectionPurpose, request: Any, timeout_s: float) -> Any:
        return await self._client.ask(purpose, request, timeout_s=timeout_s)

    def _forget_membership(self) -> None:
        """Be no member: nothing may be done as leader any more; what is copied goes on until somebody says else."""
        self._lease.end()
        self._is_leader = False
        self._member_id, self._generation = NO_MEMBER_ID, NO_GENERATION
        self._reason = "the coordinator did not know this member"

    def _lost_sight(self, problem: str) -> None:
        if self.problem != problem:
            log.warning("no member of the group", group=self._terms.group_id, reason=problem)
        self.problem = problem


def _now_ms() -> int:
    # The coordinator's patience does not stand still while this machine is suspended.
    return int(boot_time_s() * 1000)
