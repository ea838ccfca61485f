"""An endless watch that never skips a change.

After a broken stream it resumes one past the last event it delivered. It does not resume past `header.revision`,
which in a batch of events is merely the newest revision of the store, also while older events are still to come.
Only in a progress notification (a response without events) does the header say that everything up to it has
been delivered. etcd sends those by itself every few minutes; they are not asked for one by one, because etcd
before 3.5.8 may send a requested one ahead of events.

To a watch that is behind etcd sends the changes of up to 1,000 revisions together, which may be more than a message
may hold. Then it is asked to send them in fragments; not before, as that takes it ten times as long. The last
revision of a fragment may go on in the next one, and a watch cannot be resumed in the middle of a revision: its
events are held back until they are complete.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

import structlog
from grpc import aio

from ottla_core.cluster.etcd.connection import REQUIRE_LEADER, RETRY_DELAY_S, Endpoint, EtcdConnection
from ottla_core.cluster.etcd.errors import StoreWentBack, WatchHistoryLost, is_too_large
from ottla_core.cluster.etcd.key_value import KeyChange
from ottla_core.cluster.etcd.messages import key_change
from ottla_core.rpc.status import described
from ottla_proto.gen.etcd import kv_pb2
from ottla_proto.gen.etcd.rpc_pb2 import RangeRequest, WatchCreateRequest, WatchRequest, WatchResponse

CREATION_TIMEOUT_S = 2.0
"""etcd confirms a watch at once; a member that stalls says nothing, while its connection stays open."""

log = structlog.get_logger("etcd")


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """Changes that etcd reported together, in order; empty for a progress notification.

    `revision`: every change up to it has been delivered with this batch.
    """

    changes: tuple[KeyChange, ...]
    revision: int


class _Cancelled(Exception):
    """etcd ended a watch and kept the stream, for example because the token is stale."""


class EtcdWatch:
    """A watch on one key or one range of keys, resumed for as long as somebody listens.

    Args:
        connection: where to watch.
        request: what to watch, and from which revision on.
        on_resume: awaited when a broken watch goes on, before it delivers anything; what it raises ends the watch.
    """

    def __init__(
        self,
        connection: EtcdConnection,
        request: WatchCreateRequest,
        on_resume: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._connection = connection
        self._request = request
        self._request.progress_notify = True
        self._held_back: list[kv_pb2.Event] = []
        self._on_resume = on_resume
        self._interrupted = False
        self._call: aio.StreamStreamCall[WatchRequest, WatchResponse] | None = None
        self._is_broken_off = False

    def break_off(self) -> None:
        """Go on at another member: this one does not deliver.

        A watch that is being resumed has its own times, and would only begin anew; it is left alone.
        """
        if self._call is not None and not self._interrupted:
            self._is_broken_off = True
            self._call.cancel()

    async def batches(self) -> AsyncGenerator[WatchBatch, None]:
        """Yield the changes from the request's start revision on.

        Raises:
            WatchHistoryLost: changes can no longer be told from here; list again.
            StoreWentBack: nor were those so far ones of this store.
        """
        self._connection.on_replaced.add(self.break_off)
        try:
            async with aclosing(self._batches()) as batches:
                async for batch in batches:
                    yield batch
        finally:
            self._connection.on_replaced.discard(self.break_off)

    async def _batches(self) -> AsyncGenerator[WatchBatch, None]:
        while True:
            endpoint = self._connection.endpoint
            try:
                async with aclosing(self._one_stream(endpoint)) as batches:
                    async for batch in batches:
                        self._request.start_revision = batch.revision + 1
                        self._request.fragment = False  # of the next stream
                        yield batch
                reason = "the stream ended"
            except aio.AioRpcError as error:
                reason = described(error)
                if is_too_large(error):
                    self._ask_for_fragments(reason)
            except TimeoutError:
                reason = "etcd does not answer"
            except asyncio.CancelledError:
                task = asyncio.current_task()
                is_ours = self._is_broken_off or not self._connection.is_current(endpoint)
                if not is_ours or (task is not None and task.cancelling()):
                    raise
                reason = "etcd delivers nothing"
            except (_Cancelled, asyncio.InvalidStateError) as error:
                reason = str(error)
                self._connection.forget_token()
            self._is_broken_off = False
            if not self._interrupted:
                self._interrupted = True
                log.warning("watch interrupted", reason=reason, resume_at=self._request.start_revision)
            self._connection.move_on(endpoint)
            await asyncio.sleep(RETRY_DELAY_S)

    def _ask_for_fragments(self, reason: str) -> None:
        """Have the next stream send the changes in fragments, as they are too large for a message.

        Raises:
            WatchHistoryLost: it was asked for fragments already. (etcd may send unfragmented what it has read before
                it has confirmed the watch.)
        """
        if self._request.fragment:
            start = self._request.start_revision
            raise WatchHistoryLost(f"the changes from revision {start} on are too large for a message: {reason}")
        self._request.fragment = True

    async def _one_stream(self, endpoint: Endpoint) -> AsyncGenerator[WatchBatch, None]:
        metadata = await self._connection.metadata(REQUIRE_LEADER)
        if not self._connection.is_current(endpoint):
            raise _Cancelled("etcd is reached with new credentials")
        call = self._call = endpoint.watch.Watch(metadata=metadata)
        self._held_back = []
        try:
            async with asyncio.timeout(CREATION_TIMEOUT_S):
                await call.write(WatchRequest(create_request=self._request))
                response = await call.read()
            while isinstance(response, WatchResponse):
                batch = await self._understand(response)
                if batch is not None:
                    yield batch
                response = await call.read()
        finally:
            self._call = None
            call.cancel()

    async def _understand(self, response: WatchResponse) -> WatchBatch | None:
        start = self._request.start_revision
        if response.compact_revision:
            raise WatchHistoryLost(
                f"etcd compacted revision {start} away; it keeps {response.compact_revision} and later"
            )
        if response.canceled:
            raise _Cancelled(response.cancel_reason or "etcd cancelled the watch")
        if response.created:
            await self._check_not_ahead(response.header.revision, start)
            if self._interrupted:
                if self._on_resume is not None:
                    await self._on_resume()
                self._interrupted = False
                log.info("watch resumed", at=start)
            return None
        if response.events:
            return self._completed(response)
        return WatchBatch((), max(response.header.revision, start - 1))

    def _completed(self, response: WatchResponse) -> WatchBatch | None:
        """Return the events of whole revisions, and hold back those that the next fragment may go on with."""
        events = [*self._held_back, *response.events]
        self._held_back = []
        if response.fragment:
            last = events[-1].kv.mod_revision
            self._held_back = [event for event in events if event.kv.mod_revision == last]
            events = events[: len(events) - len(self._held_back)]
        if not events:
            return None
        return WatchBatch(tuple(key_change(event) for event in events), events[-1].kv.mod_revision)

    async def _check_not_ahead(self, revision: int, start: int) -> None:
        """See that the store has come as far as we have; one that was restored or made anew has not.

        A single etcd member may lag behind what another has told us; so a newest revision is read.
        """
        if revision >= start - 1:
            return
        newest = await self._connection.read(
            lambda endpoint: endpoint.kv.Range, RangeRequest(key=b"\0", keys_only=True)
        )
        if newest.header.revision < start - 1:
            raise StoreWentBack(
                f"etcd is at revision {newest.header.revision}, this process has seen {start - 1}: "
                "was etcd restored or emptied?"
            )
