"""A client of etcd's v3 API: reads, transactions, leases and watches over grpc.aio.

A read that fails is repeated, on another endpoint if there is one, until a deadline. A write that fails without an
answer may have happened or not, and may even happen later; it is reported as `WriteOutcomeUnknown` and the
caller, who knows what it meant, reads back and compares.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import grpc
import structlog
from grpc import aio

from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.certificate_files import EtcdFiles
from ottla_core.cluster.etcd.connection import (
    ATTEMPT_TIMEOUT_S,
    REQUIRE_LEADER,
    Endpoint,
    EtcdConnection,
    OpenEndpoint,
)
from ottla_core.cluster.etcd.errors import EtcdAnswerTooLarge, LeaseNotFound, WriteOutcomeUnknown, write_error
from ottla_core.cluster.etcd.key_range import range_end
from ottla_core.cluster.etcd.key_value import KeyDeletion, KeyValue
from ottla_core.cluster.etcd.messages import key_value
from ottla_core.cluster.etcd.times import KEEP_ALIVE, timed
from ottla_core.cluster.etcd.watch import EtcdWatch, WatchBatch
from ottla_core.config import EtcdSettings
from ottla_core.errors import ConfigurationError
from ottla_core.reloaded_files import CHECK_SECONDS, ReloadedFiles
from ottla_proto.gen.etcd.rpc_pb2 import (
    Compare,
    LeaseGrantRequest,
    LeaseKeepAliveRequest,
    LeaseKeepAliveResponse,
    LeaseRevokeRequest,
    RangeRequest,
    RangeResponse,
    RequestOp,
    StatusRequest,
    TxnRequest,
    WatchCreateRequest,
)

LISTING_PAGE_KEYS = 2000

log = structlog.get_logger("etcd")


@dataclass(frozen=True, slots=True)
class Listing:
    """Keys and values as of one revision."""

    entries: tuple[KeyValue, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """How a transaction ended: which branch ran, the store's revision after it, and what its reads found."""

    succeeded: bool
    revision: int
    reads: tuple[KeyValue | None, ...] = ()


class EtcdClient:
    """A process's connection to an etcd cluster, for all its needs; connects when first used."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        credentials: grpc.ChannelCredentials | None = None,
        username: str | None = None,
        password: str | None = None,
        open_endpoint: OpenEndpoint = Endpoint,
    ) -> None:
        self._connection = EtcdConnection(
            endpoints, credentials=credentials, username=username, password=password, open_endpoint=open_endpoint
        )
        self._files: ReloadedFiles[grpc.ChannelCredentials] | None = None

    @classmethod
    def from_settings(cls, settings: EtcdSettings) -> "EtcdClient":
        """Return a client as configured.

        Raises:
            ConfigurationError: an endpoint is malformed or a TLS file cannot be read.
        """
        files = EtcdFiles.from_settings(settings)
        reloaded = None if files is None else ReloadedFiles(files.paths, files.credentials)
        client = cls(
            settings.etcd_endpoints,
            credentials=None if reloaded is None else reloaded.contents,
            username=settings.etcd_username,
            password=settings.etcd_password,
        )
        client._files = reloaded
        return client

    @property
    def has_files(self) -> bool:
        """Whether its certificate, or whom it trusts, comes from files, which may change."""
        return self._files is not None

    async def keep_certificate(self) -> None:
        """Look at the files now and then, and go on with what they have; does not return."""
        assert self._files is not None
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                is_new = await asyncio.to_thread(self._files.look)
            except ConfigurationError as error:
                log.error("the process goes on with its former certificate for etcd", problem=str(error))
                continue
            if is_new:
                self._connection.replace_credentials(self._files.contents)
                log.info("the process has a new certificate for etcd")

    async def close(self) -> None:
        """Close every channel; running calls fail."""
        await self._connection.close()

    async def read(self, key: str) -> KeyValue | None:
        """Return a key as it is now, or None.

        Raises:
            EtcdError: see `list_prefix`.
        """
        response = await self._range(RangeRequest(key=key.encode()))
        return key_value(response.kvs[0]) if response.kvs else None

    async def list_prefix(self, prefix: str) -> Listing:
        """Return every key that begins with `prefix`, all as of one revision.

        Raises:
            EtcdUnavailable: nobody answered in time.
            EtcdAccessDenied: user, password or permission is wrong.
            EtcdError: etcd refused for another reason, such as a compaction while pages were read.
        """
        entries: list[KeyValue] = []
        revision = 0
        async for page in self.pages(prefix):
            entries.extend(page.entries)
            revision = page.revision
        return Listing(tuple(entries), revision)

    async def pages(self, prefix: str) -> AsyncGenerator[Listing, None]:
        """Yield the same page by page, at least one, for those who do not want all of it in memory.

        A page whose values are too long for one message is asked for anew with half as many keys.

        Raises:
            EtcdAnswerTooLarge: a single key with its value is too long.
            EtcdError: see `list_prefix`.
        """
        request = RangeRequest(key=prefix.encode(), range_end=range_end(prefix), limit=LISTING_PAGE_KEYS)
        while True:
            try:
                response = await self._range(request)
            except EtcdAnswerTooLarge:
                if request.limit == 1:
                    raise
                request.limit //= 2
                continue
            if request.revision == 0:
                request.revision = response.header.revision
            yield Listing(tuple(key_value(message) for message in response.kvs), request.revision)
            if not response.more:
                return
            request.key = response.kvs[-1].key + b"\0"

    async def newest_revision(self) -> int:
        """Return a revision of the store that no change which was answered before this call comes after.

        Raises:
            EtcdError: see `list_prefix`.
        """
        response = await self._range(RangeRequest(key=b"\0", keys_only=True))
        return response.header.revision

    async def touch(self, key: str) -> int | None:
        """Write a key anew, unchanged, and return the revision of that; None if there is no such key.

        Raises:
            WriteOutcomeUnknown: no answer.
            EtcdError: etcd refused.
        """
        result = await self.transaction([op.exists(key)], [op.touch(key)])
        return result.revision if result.succeeded else None

    async def server_version(self) -> str:
        """Return the version of the etcd server that answers, such as 3.5.16."""
        response = await self._connection.read(lambda e: e.maintenance.Status, StatusRequest())
        return response.version

    async def transaction(
        self,
        compares: Sequence[Compare],
        success: Sequence[RequestOp],
        failure: Sequence[RequestOp] = (),
    ) -> TransactionResult:
        """Run `success` if all compares hold, else `failure`; one attempt.

        Raises:
            WriteOutcomeUnknown: no answer; read back and compare.
            LeaseNotFound: a put names a lease that is gone.
            EtcdError: etcd refused; nothing was written.
        """
        request = TxnRequest(compare=compares, success=success, failure=failure)
        response = await self._connection.write(lambda e: e.kv.Txn, request)
        reads = tuple(
            key_value(answer.response_range.kvs[0]) if answer.response_range.kvs else None
            for answer in response.responses
            if answer.HasField("response_range")
        )
        return TransactionResult(response.succeeded, response.header.revision, reads)

    async def grant_lease(self, ttl_s: int) -> tuple[int, int]:
        """Return the id and the TTL in seconds of a new lease; etcd may grant a longer TTL.

        Raises:
            WriteOutcomeUnknown: no answer; a lease that was granted nevertheless expires by itself.
        """
        response = await self._connection.write(lambda e: e.lease.LeaseGrant, LeaseGrantRequest(ttl=ttl_s))
        return response.id, response.ttl

    async def revoke_lease(self, lease_id: int) -> None:
        """End a lease and delete its keys.

        Raises:
            LeaseNotFound: it has ended already.
            WriteOutcomeUnknown: no answer; the lease expires by itself.
        """
        await self._connection.write(lambda e: e.lease.LeaseRevoke, LeaseRevokeRequest(id=lease_id))

    async def keep_lease_alive(self, lease_id: int) -> int:
        """Renew a lease once and return its TTL in seconds.

        Raises:
            LeaseNotFound: it has expired or was revoked.
            WriteOutcomeUnknown: no answer; try again.
        """
        endpoint = self._connection.endpoint
        try:
            metadata = await self._connection.metadata(REQUIRE_LEADER)
            endpoint = self._connection.endpoint  # new credentials may have come meanwhile, and closed the former one
            call = endpoint.lease.LeaseKeepAlive(timeout=ATTEMPT_TIMEOUT_S, metadata=metadata)
            try:
                with timed(KEEP_ALIVE):
                    await call.write(LeaseKeepAliveRequest(id=lease_id))
                    response = await call.read()
            finally:
                call.cancel()
        except aio.AioRpcError as error:
            self._connection.move_on(endpoint)
            raise write_error(error) from None
        except asyncio.InvalidStateError:  # grpc.aio's word for a stream that was over before the write
            response = aio.EOF
        if not isinstance(response, LeaseKeepAliveResponse):
            self._connection.move_on(endpoint)
            raise WriteOutcomeUnknown("etcd closed the keep-alive stream")
        if response.ttl <= 0:
            raise LeaseNotFound(f"lease {lease_id:x} has expired")
        return response.ttl

    def watch_prefix(
        self, prefix: str, start_revision: int, on_resume: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncGenerator[WatchBatch, None]:
        """Yield the changes below `prefix` from `start_revision` on, endlessly; reconnects by itself.

        `on_resume` is awaited after each reconnection, before further changes; what it raises comes out here.

        Raises:
            WatchHistoryLost: changes can no longer be told from here; list again.
            StoreWentBack: nor were those so far ones of this store.
        """
        return self.prefix_watch(prefix, start_revision, on_resume).batches()

    def prefix_watch(
        self, prefix: str, start_revision: int, on_resume: Callable[[], Awaitable[None]] | None = None
    ) -> EtcdWatch:
        """Return the watch whose changes `watch_prefix` yields."""
        request = WatchCreateRequest(key=prefix.encode(), range_end=range_end(prefix), start_revision=start_revision)
        return EtcdWatch(self._connection, request, on_resume)

    async def wait_for_deletion(self, key: str, after_revision: int) -> None:
        """Return once `key` has been deleted after `after_revision`.

        Raises:
            WatchHistoryLost: read the key and decide again.
        """
        request = WatchCreateRequest(key=key.encode(), start_revision=after_revision + 1)
        async with aclosing(EtcdWatch(self._connection, request).batches()) as batches:
            async for batch in batches:
                if any(isinstance(change, KeyDeletion) for change in batch.changes):
                    return

    async def _range(self, request: RangeRequest) -> RangeResponse:
        return await self._connection.read(lambda endpoint: endpoint.kv.Range, request)
