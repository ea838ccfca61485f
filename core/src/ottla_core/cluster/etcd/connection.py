"""The channels to etcd: which endpoint is asked, with which credentials, and what happens when it fails.

Every attempt has a short timeout and goes to the current endpoint; one that does not answer makes the next one
current. Reads are repeated until a deadline, writes never (see `etcd_errors.WriteOutcomeUnknown`). With a user
name, a token is fetched when first needed and again when etcd says that it is stale. With a certificate that etcd
takes for a user's, none is needed.

New credentials are for new channels. Watches go on by these at once, and what runs on the former ones has
`RETIREMENT_S` to end.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import grpc
from grpc import aio

from ottla_core.background import start_detached
from ottla_core.cluster.etcd.endpoints import etcd_targets
from ottla_core.cluster.etcd.errors import EtcdUnavailable, is_no_answer, is_stale_token, refusal, write_error
from ottla_core.cluster.etcd.times import timed
from ottla_core.rpc.status import described
from ottla_core.rpc.unary_method import UnaryMethod
from ottla_proto.gen.etcd.rpc_pb2 import AuthenticateRequest
from ottla_proto.gen.etcd.rpc_pb2_grpc import AuthStub, KVStub, LeaseStub, MaintenanceStub, WatchStub

ATTEMPT_TIMEOUT_S = 1.0
READ_TIMEOUT_S = 10.0
RETRY_DELAY_S = 0.1
RETIREMENT_S = 10.0
"""Longer than any attempt takes."""

RECEIVED_BYTES_MAX = 64 * 1024 * 1024
"""The largest message of etcd that is taken. A value has at most 1.5 MiB by etcd's default (`--max-request-bytes`), a
fragment of changes 2 MiB. Pages of listings and changes that are larger come in smaller parts: see
`EtcdClient.pages` and `EtcdWatch`."""

CHANNEL_OPTIONS: Sequence[tuple[str, str | int]] = (
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", RECEIVED_BYTES_MAX),
    # etcd is reached directly, whatever http_proxy says.
    ("grpc.enable_http_proxy", 0),
    # Without its own pool a new client would inherit the back-off of an earlier one to the same address.
    ("grpc.use_local_subchannel_pool", 1),
)

REQUIRE_LEADER = ("hasleader", "true")
"""Asks an etcd member that has lost its cluster to break a stream instead of keeping it, silent."""

Request = TypeVar("Request")
Response = TypeVar("Response")


class Endpoint:
    """One channel and etcd's services on it."""

    def __init__(
        self,
        target: str,
        credentials: grpc.ChannelCredentials | None,
        options: Sequence[tuple[str, str | int]] = CHANNEL_OPTIONS,
    ) -> None:
        if credentials is None:
            self.channel = aio.insecure_channel(target, options=options)
        else:
            self.channel = aio.secure_channel(target, credentials, options=options)
        self.kv = KVStub(self.channel)
        self.watch = WatchStub(self.channel)
        self.lease = LeaseStub(self.channel)
        self.auth = AuthStub(self.channel)
        self.maintenance = MaintenanceStub(self.channel)


OpenEndpoint = Callable[[str, grpc.ChannelCredentials | None], Endpoint]


class EtcdConnection:
    """How a process reaches etcd; `open_endpoint` opens the channel to a target."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        credentials: grpc.ChannelCredentials | None,
        username: str | None,
        password: str | None,
        open_endpoint: OpenEndpoint = Endpoint,
    ) -> None:
        chosen = etcd_targets(endpoints)
        if chosen.tls and credentials is None:
            credentials = grpc.ssl_channel_credentials()
        self._targets = chosen
        self._open_endpoint = open_endpoint
        self._endpoints = self._opened(credentials)
        self._current = 0
        self._retiring: set[asyncio.Task[None]] = set()
        self.on_replaced: set[Callable[[], None]] = set()
        """Called when there are new channels."""
        self._username = username
        self._password = password
        self._token: str | None = None
        self._authenticating = asyncio.Lock()

    def _opened(self, credentials: grpc.ChannelCredentials | None) -> list[Endpoint]:
        chosen = self._targets
        return [self._open_endpoint(target, credentials if chosen.tls else None) for target in chosen.targets]

    def replace_credentials(self, credentials: grpc.ChannelCredentials) -> None:
        """Go on by new channels, with new credentials."""
        former, self._endpoints = self._endpoints, self._opened(credentials)
        for replaced in tuple(self.on_replaced):
            replaced()
        for endpoint in former:
            closing = start_detached("closing a channel to etcd", endpoint.channel.close(RETIREMENT_S))
            self._retiring.add(closing)
            closing.add_done_callback(self._retiring.discard)

    def is_current(self, endpoint: Endpoint) -> bool:
        """Return whether a channel is not about to be closed."""
        return endpoint in self._endpoints

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint to ask."""
        return self._endpoints[self._current]

    def move_on(self, failed: Endpoint) -> None:
        """Make the next endpoint current, unless another call has done so already."""
        if self.endpoint is failed:
            self._current = (self._current + 1) % len(self._endpoints)

    async def close(self) -> None:
        """Close every channel; running calls fail."""
        for closing in tuple(self._retiring):
            closing.cancel()
        for endpoint in self._endpoints:
            await endpoint.channel.close()

    async def read(
        self,
        method: Callable[[Endpoint], UnaryMethod[Request, Response]],
        request: Request,
    ) -> Response:
        """Ask until somebody answers.

        Raises:
            EtcdUnavailable: nobody did within `READ_TIMEOUT_S`.
            EtcdError: etcd refused.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READ_TIMEOUT_S
        while True:
            try:
                return await self._attempt(method, request)
            except aio.AioRpcError as error:
                if not is_no_answer(error):
                    raise refusal(error) from None
                if loop.time() >= deadline:
                    raise EtcdUnavailable(
                        f"etcd did not answer within {READ_TIMEOUT_S:.0f} s: {described(error)}"
                    ) from None
            await asyncio.sleep(RETRY_DELAY_S)

    async def write(
        self,
        method: Callable[[Endpoint], UnaryMethod[Request, Response]],
        request: Request,
    ) -> Response:
        """Ask once.

        Raises:
            WriteOutcomeUnknown: no answer.
            EtcdError: etcd refused; nothing was written.
        """
        try:
            return await self._attempt(method, request)
        except aio.AioRpcError as error:
            raise write_error(error) from None

    async def metadata(self, *extra: tuple[str, str]) -> aio.Metadata:
        """Return what a call carries: the token, if this client has a user name.

        Raises:
            grpc.aio.AioRpcError: etcd gave no token.
        """
        if self._username is None:
            return aio.Metadata(*extra)
        async with self._authenticating:
            if self._token is None:
                self._token = await self._authenticate(self._username)
        return aio.Metadata(("token", self._token), *extra)

    def forget_token(self) -> None:
        """Authenticate anew before the next call."""
        self._token = None

    async def _attempt(
        self,
        method: Callable[[Endpoint], UnaryMethod[Request, Response]],
        request: Request,
    ) -> Response:
        try:
            return await self._call(method, request)
        except aio.AioRpcError as error:
            if not is_stale_token(error):
                raise
        # etcd looks at the token before anything else, so nothing has happened and even a write may be repeated.
        self.forget_token()
        return await self._call(method, request)

    async def _call(
        self,
        method: Callable[[Endpoint], UnaryMethod[Request, Response]],
        request: Request,
    ) -> Response:
        metadata = await self.metadata()
        endpoint = self.endpoint
        try:
            with timed(type(request).__name__.removesuffix("Request")):
                return await method(endpoint)(request, timeout=ATTEMPT_TIMEOUT_S, metadata=metadata)
        except aio.AioRpcError as error:
            if is_no_answer(error):
                self.move_on(endpoint)
            raise

    async def _authenticate(self, username: str) -> str:
        endpoint = self.endpoint
        request = AuthenticateRequest(name=username, password=self._password or "")
        try:
            response = await endpoint.auth.Authenticate(request, timeout=ATTEMPT_TIMEOUT_S)
        except aio.AioRpcError as error:
            if is_no_answer(error):
                self.move_on(endpoint)
            raise
        return response.token
