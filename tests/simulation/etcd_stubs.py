"""gRPC's stubs of etcd's services, over the simulated network: what the real `EtcdClient` calls in a simulation."""

import asyncio
from collections import deque
from typing import Any

import grpc
from grpc import aio

from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.connection import ATTEMPT_TIMEOUT_S
from ottla_proto.gen.etcd.rpc_pb2 import WatchResponse
from tests.simulation.etcd_members import EtcdMember
from tests.simulation.fake_etcd import Asked, FakeEtcd, refused
from tests.simulation.network import Handler, Network
from tests.simulation.process import Process


def etcd_client(process: Process, sender: str, network: Network, etcd: FakeEtcd) -> EtcdClient:
    """Return a client for this life of a process; each begins at a member of its own."""
    members = {member.name: member for member in etcd.members}
    names = list(members)
    first = process.schedule.random.randrange(len(names))

    def open_endpoint(target: str, _credentials: grpc.ChannelCredentials | None) -> "SimulatedEndpoint":
        name = target.removeprefix("dns:///").partition(":")[0]
        return SimulatedEndpoint(process, sender, network, members[name])

    urls = [f"http://{name}:2379" for name in names[first:] + names[:first]]
    return EtcdClient(urls, open_endpoint=open_endpoint)  # type: ignore[arg-type]


class SimulatedEndpoint:
    """One process's channel to one member, with etcd's services on it: `kv`, `lease` and `watch`."""

    def __init__(self, process: Process, sender: str, network: Network, member: EtcdMember) -> None:
        self._process = process
        self._sender = sender
        self._network = network
        self._member = member
        self.kv = self.lease = self.watch = self

    def _call(self, handler: Handler, message: Any, timeout_s: float) -> "asyncio.Future[Any]":
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def over(answer: Any) -> None:
            if answered.done():
                return
            if answer is None:
                answered.set_exception(refused(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))
            elif isinstance(answer, aio.AioRpcError):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)

        asked = Asked(self._sender, message)
        self._network.call(self._process, self._member, handler, asked, over, timeout_s * 1000)
        return answered

    # ruff: noqa: N802 - gRPC's names
    def Range(self, request: Any, *, timeout: float, metadata: aio.Metadata) -> "asyncio.Future[Any]":
        """Read."""
        del metadata
        return self._call(self._member.read, request, timeout)

    def Txn(self, request: Any, *, timeout: float, metadata: aio.Metadata) -> "asyncio.Future[Any]":
        """Run a transaction."""
        del metadata
        return self._call(self._member.transact, request, timeout)

    def LeaseGrant(self, request: Any, *, timeout: float, metadata: aio.Metadata) -> "asyncio.Future[Any]":
        """Grant a lease."""
        del metadata
        return self._call(self._member.grant, request, timeout)

    def LeaseRevoke(self, request: Any, *, timeout: float, metadata: aio.Metadata) -> "asyncio.Future[Any]":
        """End a lease."""
        del metadata
        return self._call(self._member.revoke, request, timeout)

    def LeaseKeepAlive(self, *, timeout: float, metadata: aio.Metadata) -> "KeepAliveCall":
        """Renew a lease, on a stream of which one answer is read."""
        del metadata
        return KeepAliveCall(self, timeout)

    def renewed(self, request: Any, timeout_s: float) -> "asyncio.Future[Any]":
        """Send a renewal."""
        return self._call(self._member.renew, request, timeout_s)

    def Watch(self, *, metadata: aio.Metadata) -> "WatchCall":
        """Open a stream for one watch."""
        del metadata
        return WatchCall(self._process, self._sender, self._network, self._member)


class KeepAliveCall:
    """A stream of renewals, for one."""

    def __init__(self, endpoint: SimulatedEndpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._answered: asyncio.Future[Any] | None = None

    async def write(self, request: Any) -> None:
        """Send a renewal."""
        self._answered = self._endpoint.renewed(request, self._timeout_s)

    async def read(self) -> Any:
        """Return the answer."""
        assert self._answered is not None
        return await self._answered

    def cancel(self) -> None:
        """Wait for nothing any more."""
        if self._answered is not None:
            self._answered.cancel()


class WatchCall:
    """A client's end of a stream with one watch; it breaks when its member is killed, and in no other way."""

    def __init__(self, process: Process, sender: str, network: Network, member: EtcdMember) -> None:
        self._process = process
        self._life = process.life
        self._sender = sender
        self._network = network
        self._member = member
        self._arrived: deque[WatchResponse | aio.AioRpcError] = deque()
        self._reading: asyncio.Future[None] | None = None
        self._is_cancelled = False

    async def write(self, request: Any) -> None:
        """Ask for the watch; what comes of it is read."""
        asked = Asked(self._sender, (request.create_request, self))
        self._network.call(
            self._process, self._member, self._member.watch, asked, lambda _: None, ATTEMPT_TIMEOUT_S * 1000
        )

    async def read(self) -> WatchResponse:
        """Return what comes next."""
        while not self._arrived:
            self._reading = asyncio.get_running_loop().create_future()
            try:
                await self._reading
            finally:
                self._reading = None
        response = self._arrived.popleft()
        if isinstance(response, aio.AioRpcError):
            raise response
        return response

    def cancel(self) -> None:
        """End the stream; who reads is cancelled."""
        self._is_cancelled = True
        if self._reading is not None:
            self._reading.cancel()

    # The member's view

    def is_open(self) -> bool:
        """Return whether somebody listens."""
        return not self._is_cancelled and self._process.life == self._life and self._process.is_running

    def bring(self, response: WatchResponse) -> None:
        """Let a response arrive."""
        self._deliver(response)

    def break_off(self) -> None:
        """Let the stream end."""
        self._deliver(refused(grpc.StatusCode.UNAVAILABLE, "Socket closed"))

    def _deliver(self, response: WatchResponse | aio.AioRpcError) -> None:
        if self.is_open():
            self._process.deliver(self._take, (response,))

    def _take(self, response: WatchResponse | aio.AioRpcError) -> None:
        self._arrived.append(response)
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)
