"""Fetching linked partitions from one broker of the source: one connection, one fetch at a time.

It asks as a consumer, so it is shown what lies below the source's high watermark only, and goes by the same plan and
fetch session (KIP-227) as followers do. Answers are appended in steps, so that other work of the event loop has its
turn. What goes wrong with one partition pauses that one; what goes wrong with the connection, all of them.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.links.linked_partition import LinkedPartition, Next
from ottla_broker.replication.fetch_plan import FIRST_PAUSE_MS, FetchPlan, FollowedPartition
from ottla_broker.replication.fetch_settings import FetchSettings
from ottla_broker.replication.throttle import ReplicationThrottle
from ottla_core.background import start_recurring
from ottla_core.client.cluster_metadata import BrokerAddress
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.pipelined_connection import Lost, PipelinedConnection
from ottla_core.client.security import ClientSecurity
from ottla_core.clock import Clock
from ottla_core.cluster.controller_rpc.link_api import UNKNOWN, LinkedPartitionState
from ottla_core.errors import InvalidResponse
from ottla_core.wire.primitives import INT32
from ottla_core.wire.replica_fetch_request import (
    FETCH_KEY,
    FETCH_VERSION,
    OLDEST_VERSION,
    ReplicaFetchRequestWriter,
)
from ottla_core.wire.replica_fetch_response import FetchedHead, PartitionFetched, ReplicaFetchResponseReader

CONSUMER: Final = -1
APPENDED_AT_ONCE_BYTES_MAX: Final = 1024 * 1024
STOPPED_PAUSE_MS: Final = 5000
"""How often it is looked whether a partition that has stopped may go on."""

logger = structlog.get_logger("links")

Followed = FollowedPartition[LinkedPartition]


class LinkDuties(Protocol):
    """What a fetcher leaves to its link."""

    def look_at_source(self) -> None:
        """Ask the source soon who leads what."""

    def find_start(self, linked: LinkedPartition, done: Callable[[], None]) -> None:
        """Ask where the source's log begins and ends, and have the partition go on there; call `done` then."""

    def set_aside(self, linked: LinkedPartition, done: Callable[[], None]) -> None:
        """Write what the source does not have elsewhere, and cut it off; call `done` then."""

    def raise_epoch(self, linked: LinkedPartition) -> None:
        """Have this leader's epoch raised to `wanted_epoch`; the partition is followed anew then."""


class SourceFetcher:
    """Fetches some linked partitions from one broker until it is closed.

    Attributes:
        address: the broker.
        fetched_bytes: of records, since the start.
        answered_ms: when it answered last, or -1.
    """

    def __init__(
        self,
        address: BrokerAddress,
        settings: FetchSettings,
        *,
        security: ClientSecurity,
        client_id: str,
        clock: Clock,
        throttle: ReplicationThrottle,
        duties: LinkDuties,
    ) -> None:
        self.address = address
        self.fetched_bytes = 0
        self.answered_ms = UNKNOWN
        self._settings = settings
        self._security = security
        self._client_id = client_id
        self._clock = clock
        self._throttle = throttle
        self._duties = duties
        self._loop = asyncio.get_running_loop()
        self._writer = ReplicaFetchRequestWriter(client_id, CONSUMER, settings.limits)
        self._plan = FetchPlan[LinkedPartition](self._bytes_max, settings.backoff_ms, self._throttled_ms)
        self._connection: PipelinedConnection | None = None
        self._lost = asyncio.Event()
        self._failures = 0
        self._version = FETCH_VERSION
        self._awaits_answer = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._followed: dict[LinkedPartition, None] = {}
        self._unsettled: dict[LinkedPartition, None] = {}
        self._task = start_recurring("link fetcher", self._keep_connected, source=address.id)

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, linked: LinkedPartition) -> None:
        """Fetch a partition from now on, for this leader's present epoch; what was asked for before is dropped."""
        self.unfollow(linked)
        self._followed[linked] = self._unsettled[linked] = None
        self._plan.follow(linked)
        self._loop.call_soon(self._ask)

    def unfollow(self, linked: LinkedPartition) -> None:
        """Fetch a partition no longer; nothing is appended to it after this."""
        if linked in self._followed:
            del self._followed[linked]
            self._unsettled.pop(linked, None)
            self._plan.unfollow((linked.topic_id, linked.topic_partition.partition))

    async def close(self) -> None:
        """Fetch nothing any more."""
        self._is_closed = True
        self._cancel_timer()
        if self._connection is not None:
            self._connection.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # The connection

    async def _keep_connected(self) -> None:
        self._drop("a fetcher starts anew")
        while not self._is_closed:
            if self._failures:
                pause_ms = min(FIRST_PAUSE_MS << min(self._failures, 16), self._settings.backoff_ms)
                await asyncio.sleep(pause_ms / 1000)
            self._lost.clear()
            try:
                connection = await PipelinedConnection.open(
                    self.address.host, self.address.port, security=self._security, client_id=self._client_id
                )
                try:
                    self._version = connection.version_among(FETCH_KEY, OLDEST_VERSION, FETCH_VERSION)
                except UnsupportedByBroker:
                    connection.close()
                    raise
            except UnsupportedByBroker:
                self._wait_all(
                    f"{self.address.host}:{self.address.port} is older than Kafka 3.1: it has no topic ids"
                )
                continue
            except (Unreachable, AuthenticationFailed) as error:
                self._wait_all(str(error))
                continue
            self._connection = connection
            self._ask()
            await self._lost.wait()

    def _wait_all(self, reason: str) -> None:
        """Note that the partitions cannot be fetched for now."""
        self._failures += 1
        now_ms = self._clock.time_ms()
        for linked in self._followed:
            linked.enter(LinkedPartitionState.WAITING, reason, now_ms)
            self._unsettled[linked] = None
        if self._failures == 1:
            logger.warning("cannot fetch from a source; trying again", source=self.address.id, reason=reason)
        self._duties.look_at_source()

    def _drop(self, reason: str) -> None:
        connection, self._connection = self._connection, None
        self._awaits_answer = False
        self._plan.disconnected()
        if connection is not None:
            connection.close()
            self._wait_all(reason)
        self._lost.set()

    # Asking

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _bytes_max(self, followed: Followed) -> int:
        settings = self._settings
        if not followed.lags:
            return settings.partition_bytes_max
        return max(settings.partition_bytes_max, settings.limits.bytes_max // 2)

    def _throttled_ms(self, _followed: Followed, now_ms: int) -> int:
        return self._throttle.wait_ms(now_ms)

    def _ask(self) -> None:
        connection = self._connection
        self._cancel_timer()
        if self._is_closed or connection is None or self._awaits_answer:
            return
        if not connection.is_usable:
            self._drop("the connection has come to its end")
            return
        planned = self._plan.next_fetch(self._now_ms())
        if (look_ms := self._plan.next_look_ms()) is not None:
            self._timer = self._loop.call_later(max(0.001, look_ms / 1000 - self._loop.time()), self._pause_ended)
        if planned is None:
            return
        self._awaits_answer = True
        body = self._writer.body(CONSUMER, planned.session, planned.asked, planned.forgotten, version=self._version)
        try:
            connection.send(
                FETCH_KEY,
                self._version,
                [body],
                self._on_answer,
                is_flexible=True,
                timeout_s=self._settings.socket_timeout_ms / 1000,
                is_owned=True,
            )
        except Unreachable as error:
            self._drop(str(error))

    def _pause_ended(self) -> None:
        self._timer = None
        self._ask()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Taking answers

    def _on_answer(self, answer: memoryview | Lost) -> None:
        if self._is_closed or self._connection is None:
            return
        if isinstance(answer, Exception):
            self._drop(str(answer))
            return
        (correlation_id,) = INT32.unpack_from(answer)
        self._take_step(answer, ReplicaFetchResponseReader(answer, correlation_id), 0, self._connection)

    def _take_step(
        self, answer: memoryview, reader: ReplicaFetchResponseReader, taken: int, connection: PipelinedConnection
    ) -> None:
        """Append as much of an answer as the event loop can spare the time for, and the rest in its next turns."""
        if self._is_closed or self._connection is not connection:
            return
        taken = min(len(answer), taken + APPENDED_AT_ONCE_BYTES_MAX)
        try:
            while (fetched := reader.read_next(taken)) is not None:
                self._take(fetched)
        except InvalidResponse as error:
            self._drop(error.message)
            return
        except Exception:  # a bug of ours must not leave partitions without a fetcher
            logger.exception("an answer could not be handled")
            self._drop("an answer could not be handled")
            return
        if taken < len(answer):
            self._loop.call_soon(self._take_step, answer, reader, taken, connection)
            return
        self._awaits_answer = False
        assert reader.head is not None
        self._answered(reader.head)

    def _answered(self, head: FetchedHead) -> None:
        if head.error_code is ErrorCode.none:
            self._plan.answered(head.session_id)
            self._failures = 0
            self.answered_ms = self._clock.time_ms()
            self._settle()
        elif head.error_code in (ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch):
            self._plan.session_refused(head.error_code)
        else:
            self._drop(f"it refuses fetches: {head.error_code.name}")
            return
        self._ask()

    def _settle(self) -> None:
        """Note that partitions are fetched of which the answer says nothing: in a session, what is wrong is said."""
        for linked in tuple(self._unsettled):
            followed = self._plan.get(linked.topic_id, linked.topic_partition.partition)
            if followed is not None and followed.asked is not None:
                del self._unsettled[linked]
                if linked.state is LinkedPartitionState.WAITING:
                    linked.enter(LinkedPartitionState.RUNNING, "", self.answered_ms)

    def _take(self, fetched: PartitionFetched) -> None:
        followed = self._plan.get(fetched.topic_id, fetched.partition)
        if followed is None or followed.asked is None:
            return
        linked = followed.partition
        position = linked.fetch_position()
        if position.offset != followed.end_offset:
            self._plan.moved(followed)  # it is another log by now
            return
        log = linked.partition.log
        before = log.log_end_offset
        what = linked.take(fetched, log_end_offset=before, now_ms=self._clock.time_ms())
        if size := len(fetched.records):
            self.fetched_bytes += size
            self._throttle.record(size, self._now_ms())
        if log.log_end_offset != before:
            followed.end_offset = linked.fetch_position().offset
            self._plan.moved(followed)
        followed.lags = fetched.high_watermark > log.log_end_offset
        self._go_on(followed, what)

    def _go_on(self, followed: Followed, what: Next) -> None:
        linked, plan = followed.partition, self._plan
        if what is not Next.GO_ON:
            self._unsettled[linked] = None
        match what:
            case Next.GO_ON:
                if followed.failures:
                    plan.succeeded(followed)
            case Next.LATER:
                plan.failed(followed, self._now_ms())
            case Next.LOOK:
                plan.failed(followed, self._now_ms())
                self._duties.look_at_source()
            case Next.STOPPED:
                plan.pause(followed, self._now_ms() + STOPPED_PAUSE_MS)
            case Next.FIND_START:
                plan.pause(followed, self._now_ms() + STOPPED_PAUSE_MS)
                self._duties.find_start(linked, lambda: self._resume(followed))
            case Next.SET_ASIDE:
                plan.pause(followed, self._now_ms() + STOPPED_PAUSE_MS)
                self._duties.set_aside(linked, lambda: self._resume(followed))
            case Next.RAISE_EPOCH:
                plan.pause(followed, self._now_ms() + STOPPED_PAUSE_MS)
                self._duties.raise_epoch(linked)

    def _resume(self, followed: Followed) -> None:
        if not self._is_closed and self._plan.is_present(followed):
            self._plan.resume(followed)
            self._ask()
