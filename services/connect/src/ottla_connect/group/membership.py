"""A worker's membership in its group: `Member` decides, this file sends, waits and tells the worker.

Everything runs in one event loop. Each answer goes to the member, which returns what to do next; requests and the
worker's callbacks run as tasks of their own, so that heartbeats go on whatever else takes time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import structlog
from kio.schema.errors import ErrorCode

from ottla_connect.config import WorkerConfig
from ottla_connect.group.member import Member
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
from ottla_connect.group.view import Assignment, GroupView, Revoked
from ottla_connect.group.worker_protocol import COMPATIBLE, PROTOCOL_TYPE, SESSIONED
from ottla_core.background import note_failure, start_awaited
from ottla_core.client.errors import Refused, Unreachable
from ottla_core.client.group.coordinator_client import ConnectionPurpose, CoordinatorClient
from ottla_core.client.group.messages import SendHeartbeat, SendJoin, SendSync
from ottla_core.client.group.requests import (
    GroupTerms,
    heartbeat_request,
    join_request,
    joined_of,
    leave_request,
    sync_request,
    synced_of,
)
from ottla_core.client.security import ClientSecurity
from ottla_core.clock import boot_time_s

__all__ = ["Assignment", "GroupView", "Membership", "MembershipFailed", "Revoked"]

REBALANCE_GRACE_S = 5.0
"""JoinGroup and SyncGroup may take as long as the rebalance, and then a little."""
LEAVE_TIMEOUT_S = 2.0
VIEW_CHECK_INTERVAL_S = 0.02
DEFAULT_CLIENT_ID = "connect"

log = structlog.get_logger("connect.group")


class MembershipFailed(Exception):
    """The worker cannot be a member of its group, and trying again does not help."""


class Membership:
    """Joins the group, and keeps the worker informed.

    Attributes:
        assignment: what the worker is and runs; None while it is no member.
        failed: gets a `MembershipFailed`, or what a callback has raised, when it has ended by itself.
    """

    def __init__(
        self,
        settings: WorkerConfig,
        *,
        url: str,
        view: Callable[[], GroupView],
        on_assigned: Callable[[Assignment, Revoked], Awaitable[None]],
        on_lost: Callable[[], Awaitable[None]],
        on_lease: Callable[[float], None],
    ) -> None:
        """Prepare; needs a running event loop.

        Args:
            settings: the worker's.
            url: the base URL of its REST API, for the other workers.
            view: returns what has been read of the config topic.
            on_assigned: takes a new assignment. What is revoked must be stopped when it returns. Heartbeats go on
                meanwhile; no other rebalance is joined before.
            on_lost: stops everything, as the membership is lost; then it is joined anew.
            on_lease: takes until when (CLOCK_BOOTTIME, seconds) the tasks may work, after each good heartbeat.

        The awaited callbacks never overlap.

        Raises:
            ConfigurationError: the client settings cannot be used.
        """
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._group_id = settings.group_id
        self._sync_timeout_s = settings.worker_sync_timeout_ms / 1000
        self._view = view
        self._on_assigned = on_assigned
        self._on_lost = on_lost
        self._on_lease = on_lease
        self._member_settings = _member_settings(settings, url)
        self._terms = GroupTerms(
            group_id=settings.group_id,
            protocol_type=PROTOCOL_TYPE,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
        )
        self._member = Member(self._member_settings)
        self._client = _client(settings)
        self._heartbeat_timeout_s = max(settings.session_timeout_ms / 3, settings.heartbeat_interval_ms) / 1000
        self._rebalance_timeout_s = settings.rebalance_timeout_ms / 1000 + REBALANCE_GRACE_S
        self._tasks: set[asyncio.Task[None]] = set()
        self._request: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._is_reachable = True
        self._closed = False

    @property
    def assignment(self) -> Assignment | None:
        """What the worker is and runs; None while it is no member."""
        return self._member.assignment

    async def start(self) -> None:
        """Begin to join; the first assignment comes by `on_assigned`."""
        self._spawn(self._keep_time())

    async def close(self) -> None:
        """Leave the group. Everything must have stopped: another worker may be given it at once."""
        if self._closed:
            return
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._client.abandon(ConnectionPurpose.REBALANCE)
        if self._member.member_id:
            await self._leave(self._member.member_id)
        self._client.forget()
        self.failed.cancel()

    def request_rejoin(self, reason: str = "the worker asks for a rebalance") -> None:
        """Have a rebalance soon.

        Unless this worker leads, or its own view or work has changed, the coordinator only repeats the assignment.
        """
        self._do(self._member.request_rejoin(reason, _now_ms()))

    async def _keep_time(self) -> None:
        while not self._closed:
            self._do(self._member.tick(_now_ms()))
            self._woken.clear()
            wake_ms = self._member.wake_ms()
            timeout_s = None if wake_ms is None else max(wake_ms - _now_ms(), 0) / 1000
            try:
                async with asyncio.timeout(timeout_s):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if self._closed or self.failed.done():
                return
            match action:
                case SendJoin() | MakePlan() | SendSync():
                    self._request = self._spawn(self._work_of(action))
                case SendHeartbeat() | Deliver() | DeclareLost():
                    self._spawn(self._work_of(action))
                case GrantLease():
                    self._on_lease(action.until_ms / 1000)
                case AbandonRequest():
                    self._abandon_request()
                case ForgetCoordinator():
                    self._client.forget()
                case Warn():
                    log.warning("group-member-misbehaves", reason=action.message)
                case Fail():
                    self._fail(MembershipFailed(f"group {self._group_id}: {action.reason}"))
        self._woken.set()

    def _work_of(
        self, action: SendJoin | MakePlan | SendSync | SendHeartbeat | Deliver | DeclareLost
    ) -> Coroutine[Any, Any, None]:
        match action:
            case SendJoin():
                return self._join(action)
            case MakePlan():
                return self._plan(action)
            case SendSync():
                return self._sync(action)
            case SendHeartbeat():
                return self._beat(action)
            case Deliver():
                return self._deliver(action)
            case DeclareLost():
                return self._declare_lost()

    def _abandon_request(self) -> None:
        if self._request is not None:
            self._request.cancel()
        self._client.abandon(ConnectionPurpose.REBALANCE)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = start_awaited("group membership", work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, MembershipFailed):
                note_failure("group membership", error)
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self.failed.done():
            return
        log.error("membership-failed", reason=str(error))
        self.failed.set_exception(error)
        for task in self._tasks:
            task.cancel()
        self._client.forget()

    # Requests.

    async def _join(self, action: SendJoin) -> None:
        log.info("joining", group=self._group_id, member=action.member_id, reason=action.reason)
        protocols = self._member.metadata(self._view().config_offset)
        request = join_request(self._terms, action, protocols)
        answer = await self._ask(ConnectionPurpose.REBALANCE, request, self._rebalance_timeout_s)
        if answer is None:
            self._do(self._member.join_unanswered(action.ticket, _now_ms()))
        else:
            self._do(self._member.joined(action.ticket, joined_of(answer), _now_ms()))

    async def _plan(self, action: MakePlan) -> None:
        """Wait a while for what another worker has read of the config topic already, then plan."""
        give_up_s = time.monotonic() + self._sync_timeout_s
        while self._view().config_offset < action.config_offset and time.monotonic() < give_up_s:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(VIEW_CHECK_INTERVAL_S)
        self._do(self._member.plan(action.ticket, self._view(), _now_ms()))

    async def _sync(self, action: SendSync) -> None:
        request = sync_request(self._terms, action)
        answer = await self._ask(ConnectionPurpose.REBALANCE, request, self._rebalance_timeout_s)
        if answer is None:
            self._do(self._member.sync_unanswered(action.ticket, _now_ms()))
        else:
            self._do(self._member.synced(action.ticket, synced_of(answer), _now_ms()))

    async def _beat(self, action: SendHeartbeat) -> None:
        request = heartbeat_request(self._group_id, action)
        answer = await self._ask(ConnectionPurpose.HEARTBEAT, request, self._heartbeat_timeout_s)
        if answer is None:
            self._do(self._member.heartbeat_unanswered(action.ticket, _now_ms()))
        else:
            self._do(self._member.heartbeat_answered(action.ticket, answer.error_code, _now_ms()))

    async def _leave(self, member_id: str) -> None:
        request = leave_request(self._group_id, member_id, "the worker stops")
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                answer = await self._client.ask(ConnectionPurpose.HEARTBEAT, request, timeout_s=LEAVE_TIMEOUT_S)
        except (Unreachable, Refused, TimeoutError) as error:
            log.warning("group-not-left", group=self._group_id, reason=str(error) or "no answer in time")
        else:
            error_code: ErrorCode = answer.error_code
            log.info("group-left", group=self._group_id, error=error_code.name)

    async def _ask(self, purpose: ConnectionPurpose, request: Any, timeout_s: float) -> Any | None:
        """Return the response; None if there is none. What cannot get better ends the membership."""
        try:
            response = await self._client.ask(purpose, request, timeout_s=timeout_s)
        except Unreachable as error:
            if self._is_reachable and not self._closed:
                log.warning("coordinator-unreachable", group=self._group_id, reason=str(error))
            self._is_reachable = False
            return None
        except Refused as error:
            raise MembershipFailed(f"group {self._group_id}: {error}") from None
        if not self._is_reachable:
            log.info("coordinator-reachable", group=self._group_id)
        self._is_reachable = True
        return response

    # The worker's callbacks.

    async def _deliver(self, action: Deliver) -> None:
        assignment = action.assignment
        log.info(
            "assigned",
            group=self._group_id,
            generation=assignment.generation,
            leads=assignment.is_leader,
            runs=str(assignment.work),
            revoked=str(action.revoked),
        )
        await self._on_assigned(assignment, action.revoked)
        self._do(self._member.taken(_now_ms()))

    async def _declare_lost(self) -> None:
        log.warning("membership-lost", group=self._group_id)
        await self._on_lost()
        self._do(self._member.taken(_now_ms()))


def _member_settings(settings: WorkerConfig, url: str) -> MemberSettings:
    is_sessioned = settings.connect_protocol == SESSIONED
    return MemberSettings(
        url=url,
        protocols=(SESSIONED, COMPATIBLE) if is_sessioned else (COMPATIBLE,),
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        delay_max_ms=settings.scheduled_rebalance_max_delay_ms,
    )


def _client(settings: WorkerConfig) -> CoordinatorClient:
    client = settings.client_config("worker")
    bootstrap = []
    for address in settings.bootstrap_servers:
        host, _, port = address.rpartition(":")
        bootstrap.append((host.strip("[]"), int(port)))
    return CoordinatorClient(
        bootstrap,
        settings.group_id,
        security=ClientSecurity.of(client),
        client_id=client.get("client.id", DEFAULT_CLIENT_ID),
    )


def _now_ms() -> int:
    # The coordinator's patience does not stand still while this machine is suspended.
    return int(boot_time_s() * 1000)
