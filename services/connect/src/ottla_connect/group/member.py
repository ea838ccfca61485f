"""A worker's membership as a state machine: no I/O, no clock; answers and times go in, actions come out. Pure.

    OUTSIDE -> JOINING -> PLANNING (the leader) -> SYNCING -> INSIDE -> JOINING …
       ^-- LOSING <-- from anywhere, when the coordinator does not know the member any more

Work goes on during a rebalance: a worker stops what is revoked, and nothing else. While the worker takes an
assignment (`Deliver` … `taken`) heartbeats go on, and it joins the next rebalance afterwards. Heartbeats also go on
while a JoinGroup waits for the other workers, on a connection of their own: they keep the lease alive.

A lost connection loses nothing. The member asks again, of whichever broker is the coordinator then, for as long as it
takes; its lease runs out meanwhile, which has the tasks pause.

Source: AbstractCoordinator, WorkerCoordinator and DistributedHerder in Kafka, KIP-415.
"""

import enum
from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from ottla_connect.group.leader import Leader
from ottla_connect.group.member_messages import (
    AbandonRequest,
    Action,
    DeclareLost,
    Deliver,
    Fail,
    ForgetCoordinator,
    GrantLease,
    MakePlan,
    MemberSettings,
    Warn,
)
from ottla_connect.group.view import Assignment, GroupView, work_of
from ottla_connect.group.work import NO_WORK, Work
from ottla_connect.group.worker_protocol import (
    VERSIONS,
    MalformedWorkerMessage,
    WorkerAssignment,
    WorkerState,
    decode_assignment,
    encode_state,
)
from ottla_core.client.group.membership_lease import MembershipLease
from ottla_core.client.group.messages import Joined, SendHeartbeat, SendJoin, SendSync, Synced

RETRY_BACKOFF_FIRST_MS = 50
RETRY_BACKOFF_MAX_MS = 1000
FAILED_ASSIGNMENT_BACKOFF_MS = 250
NO_GENERATION = -1
NO_MEMBER_ID = ""

_COORDINATOR_ELSEWHERE = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
_FATAL = {
    ErrorCode.group_authorization_failed: "the worker may not use this group (ACL: READ on the group)",
    ErrorCode.inconsistent_group_protocol: "its members are no Connect workers, or know none of our protocols",
    ErrorCode.invalid_session_timeout: "session.timeout.ms is not within what the brokers allow "
    "(group.min.session.timeout.ms, group.max.session.timeout.ms)",
    ErrorCode.invalid_group_id: "group.id is not valid",
    ErrorCode.group_max_size_reached: "it has as many members as the brokers allow (group.max.size)",
    ErrorCode.unsupported_version: "the broker does not speak the versions of the group protocol that it offers",
}


class Phase(enum.Enum):
    """Where a member stands."""

    OUTSIDE = "outside"
    """It is no member, and joins as soon as it may."""
    JOINING = "joining"
    """A JoinGroup is on its way, or waits for others."""
    PLANNING = "planning"
    """It leads, and waits for the shell to have read the config topic."""
    SYNCING = "syncing"
    """A SyncGroup is on its way, or waits for the leader."""
    INSIDE = "inside"
    """It has its assignment."""
    LOSING = "losing"
    """It is no member any more; the worker is told, or will be when it has taken the last assignment."""
    FAILED = "failed"
    """It gave up."""


class Member:
    """One worker's membership.

    Attributes:
        assignment: what it is and runs; None while it is no member.
        phase: where it stands.
        member_id: as the coordinator knows it; empty if it does not.
        generation: the group's, as far as it knows; -1 for none.
    """

    def __init__(self, settings: MemberSettings) -> None:
        self.assignment: Assignment | None = None
        self.phase = Phase.OUTSIDE
        self.member_id = NO_MEMBER_ID
        self.generation = NO_GENERATION
        self._settings = settings
        self._leader = Leader(settings.delay_max_ms)
        self._lease = MembershipLease(settings.session_timeout_ms, settings.rebalance_timeout_ms)
        self._granted_ms = -1
        self._actions: list[Action] = []
        self._ticket = 0
        self._request_ms = 0  # when the present request was sent
        self._failures = 0
        self._not_before_ms = 0  # backoff of the next JoinGroup
        self._rejoin_reason: str | None = "the worker has started"
        self._rejoin_at_ms: int | None = None
        self._worker_is_busy = False  # with an assignment, or with stopping everything
        self._worker_runs = False  # something was delivered since the membership was last lost
        self._last_generation = NO_GENERATION  # the last one that was completed
        self._protocol = ""
        self._leads = False
        self._heartbeat_due_ms = 0
        self._heartbeat_ms: int | None = None  # when the one on its way was sent
        self._heartbeat_ticket = 0
        self._heartbeat_failures = 0

    # What the shell asks.

    def wake_ms(self) -> int | None:
        """Return when `tick` is due; None if only an answer can change anything."""
        times = []
        if self._beats and self._heartbeat_ms is None:
            times.append(self._heartbeat_due_ms)
        if self.phase in (Phase.OUTSIDE, Phase.INSIDE) and not self._worker_is_busy:
            if self._rejoin_reason is not None:
                times.append(self._not_before_ms)
            elif self._rejoin_at_ms is not None:
                times.append(self._rejoin_at_ms)
        return min(times, default=None)

    def metadata(self, config_offset: int) -> list[tuple[str, bytes]]:
        """Return the protocols of a JoinGroup, with what this worker runs and how far it has read."""
        allocation = None
        if self.assignment is not None:
            allocation = WorkerAssignment(
                leader=self.assignment.leader_id,
                leader_url=self.assignment.leader_url,
                config_offset=self.assignment.config_offset,
                assigned=self.assignment.work,
            )
        state = WorkerState(url=self._settings.url, config_offset=config_offset, allocation=allocation)
        return [(protocol, encode_state(state, protocol)) for protocol in self._settings.protocols]

    # What happens. Every method returns what is to be done.

    def tick(self, now_ms: int) -> list[Action]:
        """Time has passed."""
        return self._take_actions(now_ms)

    def request_rejoin(self, reason: str, now_ms: int) -> list[Action]:
        """The worker wants a rebalance, such as because the connectors are others now."""
        self._rejoin_reason = reason
        return self._take_actions(now_ms)

    def joined(self, ticket: int, answer: Joined, now_ms: int) -> list[Action]:
        """JoinGroup was answered."""
        if ticket == self._ticket and self.phase is Phase.JOINING:
            self._on_joined(answer, now_ms)
        return self._take_actions(now_ms)

    def join_unanswered(self, ticket: int, now_ms: int) -> list[Action]:
        """There is no answer to JoinGroup; it may have been heard nevertheless."""
        if ticket == self._ticket and self.phase is Phase.JOINING:
            self._retry("the last try was not answered", now_ms)
        return self._take_actions(now_ms)

    def plan(self, ticket: int, view: GroupView, now_ms: int) -> list[Action]:
        """The config topic has been read as far as it could be."""
        if ticket == self._ticket and self.phase is Phase.PLANNING:
            assignments = self._leader.assignments(
                view,
                protocol=self._protocol,
                leader_id=self.member_id,
                generation=self.generation,
                last_generation=self._last_generation,
                now_ms=now_ms,
            )
            self._begin(Phase.SYNCING, now_ms)
            self._actions.append(self._sync(assignments))
        return self._take_actions(now_ms)

    def synced(self, ticket: int, answer: Synced, now_ms: int) -> list[Action]:
        """SyncGroup was answered."""
        if ticket == self._ticket and self.phase is Phase.SYNCING:
            self._on_synced(answer, now_ms)
        return self._take_actions(now_ms)

    def sync_unanswered(self, ticket: int, now_ms: int) -> list[Action]:
        """There is no answer to SyncGroup; it may have been heard nevertheless."""
        if ticket == self._ticket and self.phase is Phase.SYNCING:
            self._retry("SyncGroup was not answered", now_ms)
        return self._take_actions(now_ms)

    def heartbeat_answered(self, ticket: int, error: ErrorCode, now_ms: int) -> list[Action]:
        """A heartbeat was answered."""
        if ticket == self._heartbeat_ticket and self._heartbeat_ms is not None:
            sent_ms, self._heartbeat_ms = self._heartbeat_ms, None
            self._on_heartbeat(error, sent_ms, now_ms)
        return self._take_actions(now_ms)

    def heartbeat_unanswered(self, ticket: int, now_ms: int) -> list[Action]:
        """There is no answer to a heartbeat."""
        if ticket == self._heartbeat_ticket and self._heartbeat_ms is not None:
            self._heartbeat_ms = None
            self._repeat_heartbeat(now_ms)
        return self._take_actions(now_ms)

    def taken(self, now_ms: int) -> list[Action]:
        """The worker has done what the last `Deliver` or `DeclareLost` said."""
        assert self._worker_is_busy, "the worker was asked for nothing"
        self._worker_is_busy = False
        if self.phase is Phase.LOSING:
            self._lose(now_ms)
        return self._take_actions(now_ms)

    # JoinGroup.

    def _on_joined(self, answer: Joined, now_ms: int) -> None:
        error = answer.error
        if error is ErrorCode.none:
            self._failures = 0
            self._enter_generation(answer, now_ms)
        elif error is ErrorCode.member_id_required:
            self.member_id = answer.member_id
            self._join("the coordinator has given an id", now_ms)
        elif error is ErrorCode.unknown_member_id:
            self._lose(now_ms)
        elif error in _FATAL:
            self._fail(error)
        else:
            self._coordinator_may_be_elsewhere(error)
            self._retry(f"the last try was answered with {error.name}", now_ms)

    def _enter_generation(self, answer: Joined, now_ms: int) -> None:
        if answer.protocol not in VERSIONS:
            self._give_up(f"the group speaks the protocol {answer.protocol!r}, which is unknown here")
            return
        self.member_id, self.generation = answer.member_id, answer.generation
        self._protocol = answer.protocol
        self._drop_heartbeat(now_ms)
        self._lease.in_order(self._request_ms)
        self._leads = answer.leader == answer.member_id
        if self._leads:
            self._actions += (Warn(message=problem) for problem in self._leader.take(answer.members))
            self._begin(Phase.PLANNING, now_ms)
            self._actions.append(MakePlan(ticket=self._ticket, config_offset=self._leader.config_offset))
        else:
            self._begin(Phase.SYNCING, now_ms)
            self._actions.append(self._sync({}))

    # SyncGroup.

    def _sync(self, assignments: Mapping[str, bytes]) -> SendSync:
        return SendSync(
            ticket=self._ticket,
            member_id=self.member_id,
            generation=self.generation,
            protocol=self._protocol,
            assignments=assignments,
        )

    def _on_synced(self, answer: Synced, now_ms: int) -> None:
        error = answer.error
        if error is ErrorCode.none:
            self._lease.in_order(self._request_ms)
            self._failures = 0
            self._take_assignment(answer.assignment, now_ms)
        elif error is ErrorCode.unknown_member_id:
            self._lose(now_ms)
        elif error in _FATAL:
            self._fail(error)
        elif error is ErrorCode.rebalance_in_progress:
            self._join("another rebalance has begun", now_ms)
        else:
            self._coordinator_may_be_elsewhere(error)
            self._retry(f"SyncGroup was answered with {error.name}", now_ms)

    def _take_assignment(self, data: bytes, now_ms: int) -> None:
        self.phase = Phase.INSIDE
        self._last_generation = self.generation
        self._rejoin_at_ms = None
        try:
            told = decode_assignment(data)
        except MalformedWorkerMessage as error:
            self._actions.append(Warn(message=f"the leader has sent what is no assignment: {error}"))
            self._rejoin("the leader has sent no assignment", now_ms + FAILED_ASSIGNMENT_BACKOFF_MS)
            return
        if told.error:
            self._rejoin("the leader has not read all configuration", now_ms + FAILED_ASSIGNMENT_BACKOFF_MS)
            return
        before = work_of(self.assignment)
        work = (before - told.revoked) | told.assigned
        self.assignment = self._assignment(told, work)
        if before & told.revoked:
            self._rejoin("what was revoked has stopped", now_ms)
        elif told.delay_ms > 0 and self.assignment.is_leader:
            # The others follow, as the coordinator tells them to.
            self._rejoin_at_ms = now_ms + told.delay_ms
        self._worker_is_busy = self._worker_runs = True
        self._actions.append(Deliver(assignment=self.assignment, revoked=before & told.revoked))

    def _assignment(self, told: WorkerAssignment, work: Work) -> Assignment:
        return Assignment(
            connectors=work.connectors,
            tasks=work.tasks,
            leader_id=told.leader,
            leader_url=told.leader_url,
            is_leader=self._leads,
            generation=self.generation,
            config_offset=told.config_offset,
            member_urls=self._leader.member_urls if self._leads else {},
            connector_urls=self._leader.connector_urls if self._leads else {},
            task_urls=self._leader.task_urls if self._leads else {},
            held=self._leader.held if self._leads else NO_WORK,
        )

    # Heartbeats.

    @property
    def _beats(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        is_member = self.phase in (Phase.JOINING, Phase.PLANNING, Phase.SYNCING, Phase.INSIDE)
        return is_member and self.generation != NO_GENERATION

    def _on_heartbeat(self, error: ErrorCode, sent_ms: int, now_ms: int) -> None:
        self._heartbeat_failures = 0
        if error is ErrorCode.none:
            if self.generation == self._last_generation:
                self._lease.in_order(sent_ms)
            else:
                self._lease.heard(sent_ms)  # we still owe it a SyncGroup
        elif error is ErrorCode.rebalance_in_progress:
            self._lease.heard(sent_ms)
            if self.phase is Phase.INSIDE:
                self._rejoin("a rebalance has begun", now_ms)
        elif error is ErrorCode.unknown_member_id:
            if self.phase is not Phase.INSIDE:
                self._actions.append(AbandonRequest())
            self._lose(now_ms)
        elif error is ErrorCode.illegal_generation:
            if self.phase is Phase.INSIDE:
                self._rejoin("the group is in another generation", now_ms)
        elif error in _FATAL:
            self._fail(error)
        else:
            self._coordinator_may_be_elsewhere(error)
            self._repeat_heartbeat(now_ms)

    def _repeat_heartbeat(self, now_ms: int) -> None:
        backoff_ms = min(_backoff_ms(self._heartbeat_failures), self._settings.heartbeat_interval_ms)
        self._heartbeat_failures += 1
        self._heartbeat_due_ms = now_ms + backoff_ms

    def _drop_heartbeat(self, now_ms: int) -> None:
        """Expect no answer to the one on its way: it is of an older generation."""
        self._heartbeat_ticket += 1
        self._heartbeat_ms = None
        self._heartbeat_due_ms = now_ms + self._settings.heartbeat_interval_ms

    # What follows.

    def _begin(self, phase: Phase, now_ms: int) -> None:
        """Begin with a request, whose answer alone counts from now on."""
        self.phase = phase
        self._ticket += 1
        self._request_ms = now_ms

    def _join(self, reason: str, now_ms: int) -> None:
        self._begin(Phase.JOINING, now_ms)
        self._rejoin_reason = self._rejoin_at_ms = None
        self._actions.append(SendJoin(ticket=self._ticket, member_id=self.member_id, reason=reason))

    def _rejoin(self, reason: str, not_before_ms: int) -> None:
        self._rejoin_reason = reason
        self._not_before_ms = not_before_ms

    def _retry(self, reason: str, now_ms: int) -> None:
        """Join again after a while; the coordinator has no answer to the present request."""
        self.phase = Phase.OUTSIDE if self.assignment is None else Phase.INSIDE
        self._rejoin(reason, now_ms + _backoff_ms(self._failures))
        self._failures += 1

    def _coordinator_may_be_elsewhere(self, error: ErrorCode) -> None:
        if error in _COORDINATOR_ELSEWHERE:
            self._actions.append(ForgetCoordinator())

    def _lose(self, now_ms: int) -> None:
        """Be no member any more; when the worker has stopped everything, join anew."""
        self.phase = Phase.LOSING
        self._ticket += 1
        self._drop_heartbeat(now_ms)
        self.assignment = None
        self.member_id, self.generation, self._last_generation = NO_MEMBER_ID, NO_GENERATION, NO_GENERATION
        self._lease.end()
        if self._worker_is_busy:
            return  # `taken` comes here again
        if self._worker_runs:
            self._worker_runs = False
            self._worker_is_busy = True
            self._actions.append(DeclareLost())
            return
        self.phase = Phase.OUTSIDE
        self._rejoin_at_ms = None
        self._retry("the coordinator did not know this member", now_ms)

    def _fail(self, error: ErrorCode) -> None:
        self._give_up(f"{error.name.upper()}: {_FATAL[error]}")

    def _give_up(self, reason: str) -> None:
        self.phase = Phase.FAILED
        self._ticket += 1
        self._actions.append(Fail(reason=reason))

    def _take_actions(self, now_ms: int) -> list[Action]:
        """Begin what is due, and return everything that is to be done."""
        can_join = self.phase in (Phase.OUTSIDE, Phase.INSIDE) and not self._worker_is_busy
        if (
            can_join
            and self._rejoin_reason is None
            and self._rejoin_at_ms is not None
            and self._rejoin_at_ms <= now_ms
        ):
            self._rejoin("the scheduled delay is over", now_ms)
        if can_join and self._rejoin_reason is not None and self._not_before_ms <= now_ms:
            self._join(self._rejoin_reason, now_ms)
        if self._beats and self._heartbeat_ms is None and self._heartbeat_due_ms <= now_ms:
            self._heartbeat_ms = now_ms
            self._heartbeat_ticket += 1
            self._heartbeat_due_ms = now_ms + self._settings.heartbeat_interval_ms
            self._actions.append(
                SendHeartbeat(ticket=self._heartbeat_ticket, member_id=self.member_id, generation=self.generation)
            )
        until_ms = self._lease.until_ms
        if until_ms is not None and until_ms > self._granted_ms:
            self._granted_ms = until_ms
            self._actions.insert(0, GrantLease(until_ms=until_ms))
        actions, self._actions = self._actions, []
        return actions


def _backoff_ms(failures: int) -> int:
    return min(RETRY_BACKOFF_FIRST_MS << min(failures, 10), RETRY_BACKOFF_MAX_MS)
