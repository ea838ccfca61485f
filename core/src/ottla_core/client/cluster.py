"""A whole cluster as a client: any of its brokers, a certain one, its controller, a group's coordinator.

For administration and whatever else is asked now and then: there is one connection to each broker, and one request at
a time on it. Who waits for long (a fetch, a JoinGroup) takes a cluster, or a connection, of its own.

A request is sent to one broker once, unless the method says otherwise: who does not know whether a change was made
has to look. A failure closes the connection, and the next request opens another.
"""

import asyncio
import random
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v2.request import FindCoordinatorRequest as FindOneCoordinatorRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from ottla_core.client.async_connection import AsyncConnection
from ottla_core.client.cluster_metadata import NO_CONTROLLER, BrokerAddress, ClusterMetadata, cluster_metadata
from ottla_core.client.errors import (
    AnotherCluster,
    AuthenticationFailed,
    Refused,
    Unreachable,
    UnsupportedByBroker,
)
from ottla_core.client.frame_buffers import FrameBuffers
from ottla_core.client.pipelined_connection import PipelinedConnection
from ottla_core.client.security import ClientSecurity
from ottla_core.wire.conversion import message_of

ANSWER_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 5.0
COORDINATORS_REMEMBERED_MAX: Final = 10_000
FIRST_OF_MANY_KEYS: Final = 4
"""From this version FindCoordinator names many groups; brokers before Kafka 3.0 do not have it."""
COORDINATOR_PAUSE_S: Final = 0.2
_MOVED: Final = (
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
)
_NOT_ALLOWED: Final = (ErrorCode.group_authorization_failed, ErrorCode.transactional_id_authorization_failed)

GROUPS: Final = 0
TRANSACTIONS: Final = 1
"""Kinds of keys that have coordinators, by Kafka's numbers."""

HostPort = tuple[str, int]


class _Kind(NamedTuple):
    """A kind of keys, for messages."""

    name: str
    operations: str


_KINDS: Final = (_Kind("group", "READ or DESCRIBE"), _Kind("transactional id", "WRITE or DESCRIBE"))


class AsyncCluster:
    """Asks the brokers of one cluster.

    Args:
        bootstrap: addresses of some of its brokers; the others are learnt from them.
        security: TLS and login, for all brokers.
        client_id: the name under which the brokers count us.
    """

    def __init__(self, bootstrap: Sequence[HostPort], *, security: ClientSecurity, client_id: str) -> None:
        self.bootstrap = tuple(bootstrap)
        self._security = security
        self._client_id = client_id
        self._brokers: dict[int, BrokerAddress] = {}
        self._controller = NO_CONTROLLER
        self._coordinators: dict[tuple[str, int], int] = {}
        self._connections: dict[HostPort, AsyncConnection] = {}
        self._opening: dict[HostPort, asyncio.Lock] = {}
        self._expected_id: str | None = None
        self._recognized: dict[HostPort, AsyncConnection] = {}
        self._frame_buffers = FrameBuffers()
        self._is_closed = False

    def __str__(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)

    async def close(self) -> None:
        """Close all connections; requests under way end with `Unreachable`."""
        self._is_closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._recognized.clear()

    def expect(self, cluster_id: str) -> None:
        """Ask no other cluster than this one from now on, whoever answers at the addresses; "" has no id.

        Every connection is asked for the id before anything else. So whoever has decided something by what one broker
        has answered has asked the same cluster as who asks the next one, though that one be at a former address.
        """
        if cluster_id != self._expected_id:
            self._expected_id = cluster_id
            self._recognized.clear()

    async def metadata(
        self, topics: Collection[str] | None = None, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> ClusterMetadata:
        """Return what a broker knows of the cluster and of some topics, or of all of them; no topic is created.

        Raises:
            Unreachable: no broker answers; the message has the reason of each.
            AuthenticationFailed: a broker does not accept us, and no other one answers.
            UnsupportedByBroker: what answers is too old.
        """
        named = None if topics is None else tuple(message_of(MetadataRequestTopic, name=each) for each in topics)
        request = message_of(MetadataRequest, topics=named, allow_auto_topic_creation=False)
        found = cluster_metadata(await self.ask_any(request, timeout_s=timeout_s))
        if found.brokers:
            self._brokers = dict(found.brokers)
        self._controller = found.controller
        return found

    async def ask_any(self, request: Any, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Send a request that may be repeated to one broker after the other, until one answers.

        Args:
            request: of the newest class; a question, or a change that may be made twice.
            timeout_s: for all brokers together.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `metadata`.
        """
        problems: list[str] = []
        refused: AuthenticationFailed | UnsupportedByBroker | None = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        for address in self._addresses():
            remaining_s = deadline - loop.time()
            if remaining_s <= 0:
                break
            try:
                return await self._ask(address, request, remaining_s)
            except Unreachable as error:
                problems.append(str(error))
            except (AuthenticationFailed, UnsupportedByBroker) as error:
                refused = error
        raise refused or Unreachable("; ".join(problems) or f"{self} (no answer in time)")

    async def ask_broker(self, broker_id: int, request: Any, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Send a request to one broker and return the response, both in newest classes.

        Raises:
            Unreachable: it is no live broker of the cluster, or there was no answer; the request may have been
                carried out.
            AuthenticationFailed: it does not accept us.
            UnsupportedByBroker: it does not have this API.
        """
        return await self._ask_broker(broker_id, request, timeout_s, is_exact=False)

    async def ask_broker_exactly(self, broker_id: int, request: Any, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Send a request in the version of its class; see `ask_broker` and `AsyncConnection.ask_exactly`."""
        return await self._ask_broker(broker_id, request, timeout_s, is_exact=True)

    async def open_pipelined(self, broker_id: int, *, timeout_s: float = CONNECT_TIMEOUT_S) -> PipelinedConnection:
        """Return a new connection for data to one broker; it is the caller's to close.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `ask_broker`.
        """
        if broker_id not in self._brokers:
            await self.metadata((), timeout_s=timeout_s)
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise Unreachable(f"{self} (broker {broker_id} is not there)")
        try:
            connection = await PipelinedConnection.open(
                broker.host,
                broker.port,
                security=self._security,
                client_id=self._client_id,
                timeout_s=timeout_s,
                buffers=self._frame_buffers,
            )
            if self._expected_id is not None:  # an older connection to the same address may lead elsewhere
                try:
                    await _recognize(connection, self._expected_id, timeout_s)
                except BaseException:
                    connection.close()
                    raise
            return connection
        except Unreachable:
            self._brokers.pop(broker_id, None)  # it may come back at another address
            raise

    async def ask_controller(self, request: Any, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Send a change of the cluster to a broker that makes or forwards it; see `ask_broker`.

        In clusters with ZooKeeper the response may be NOT_CONTROLLER: ask again after `forget_controller`.
        """
        if self._controller == NO_CONTROLLER or self._controller not in self._brokers:
            await self.metadata((), timeout_s=timeout_s)
        if self._controller == NO_CONTROLLER:
            raise Unreachable(f"{self} (the cluster has no controller at present)")
        return await self.ask_broker(self._controller, request, timeout_s=timeout_s)

    def forget_controller(self) -> None:
        """Ask who the controller is before the next change."""
        self._controller = NO_CONTROLLER

    async def ask_coordinator(self, group_id: str, request: Any, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Send a group's request to its coordinator, and again while that moves; see `ask_broker`.

        The answer of a coordinator that is not there, is not the one any more, or still loads is asked for again
        until the time is up, when it is returned as it is.

        Raises:
            Refused: we may not ask for the group.
        """
        return await self._ask_coordinator(group_id, request, timeout_s, is_exact=False, kind=GROUPS)

    async def ask_coordinator_exactly(
        self, group_id: str, request: Any, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Any:
        """Send a group's request in the version of its class; see `ask_coordinator`."""
        return await self._ask_coordinator(group_id, request, timeout_s, is_exact=True, kind=GROUPS)

    async def ask_transaction_coordinator(
        self, transactional_id: str, request: Any, *, timeout_s: float = ANSWER_TIMEOUT_S, is_exact: bool = False
    ) -> Any:
        """Send a request of a transactional id to its coordinator, and again while that moves; see `ask_coordinator`.

        An answer that says so in parts only is returned as it is: ask again after `forget_transaction_coordinator`.

        Args:
            transactional_id: whose coordinator is asked.
            request: of the newest class, or of the one whose version is to be used.
            timeout_s: for all attempts.
            is_exact: whether the version of the request's class is used.

        Raises:
            Refused: we may not use the transactional id.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `ask_broker`.
        """
        return await self._ask_coordinator(transactional_id, request, timeout_s, is_exact=is_exact, kind=TRANSACTIONS)

    def forget_transaction_coordinator(self, transactional_id: str) -> None:
        """Find the coordinator of a transactional id anew before it is asked again."""
        self._coordinators.pop((transactional_id, TRANSACTIONS), None)

    async def version_of(self, api_key: int, *, timeout_s: float = ANSWER_TIMEOUT_S) -> int:
        """Return the newest version of an API that a broker of the cluster and we know.

        Raises:
            UnsupportedByBroker: there is none.
            Unreachable, AuthenticationFailed: see `metadata`.
        """
        problems: list[str] = []
        for address in self._addresses():
            try:
                return (await self._connection(address, timeout_s)).version_of(api_key)
            except Unreachable as error:
                problems.append(str(error))
        raise Unreachable("; ".join(problems))

    async def _ask_broker(self, broker_id: int, request: Any, timeout_s: float, *, is_exact: bool) -> Any:
        if broker_id not in self._brokers:
            await self.metadata((), timeout_s=timeout_s)
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise Unreachable(f"{self} (broker {broker_id} is not there)")
        try:
            return await self._ask((broker.host, broker.port), request, timeout_s, is_exact=is_exact)
        except Unreachable:
            self._brokers.pop(broker_id, None)  # it may come back at another address
            raise

    async def _ask_coordinator(self, key: str, request: Any, timeout_s: float, *, is_exact: bool, kind: int) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            broker_id = await self._coordinator_of(key, kind, deadline - loop.time())
            remaining_s = max(deadline - loop.time(), 0.001)
            response = await self._ask_broker(broker_id, request, remaining_s, is_exact=is_exact)
            if not _has_moved(response) or loop.time() + COORDINATOR_PAUSE_S >= deadline:
                return response
            self._coordinators.pop((key, kind), None)
            await asyncio.sleep(COORDINATOR_PAUSE_S)

    async def _coordinator_of(self, key: str, kind: int, timeout_s: float) -> int:
        """Return the broker that coordinates a group or a transactional id; asks again while none does."""
        what = _KINDS[kind]
        if (known := self._coordinators.get((key, kind))) is not None and known in self._brokers:
            return known
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            coordinator = await self._find_coordinator(key, kind, max(deadline - loop.time(), 0.001))
            if coordinator.error_code in _NOT_ALLOWED:
                raise Refused(f"{self}: not allowed to use the {what.name} {key} (ACL: {what.operations})")
            if coordinator.error_code is ErrorCode.none:
                break
            if loop.time() + COORDINATOR_PAUSE_S >= deadline:
                raise Unreachable(f"{self} ({what.name} {key} has no coordinator: {coordinator.error_code.name})")
            await asyncio.sleep(COORDINATOR_PAUSE_S)
        broker_id = int(coordinator.node_id)
        self._brokers[broker_id] = BrokerAddress(id=broker_id, host=coordinator.host, port=int(coordinator.port))
        if len(self._coordinators) >= COORDINATORS_REMEMBERED_MAX:
            self._coordinators.clear()
        self._coordinators[key, kind] = broker_id
        return broker_id

    async def _find_coordinator(self, key: str, kind: int, timeout_s: float) -> Any:
        try:
            version = await self.version_of(FindCoordinatorRequest.__api_key__, timeout_s=timeout_s)
            if version >= FIRST_OF_MANY_KEYS:
                many = message_of(FindCoordinatorRequest, key_type=kind, coordinator_keys=(key,))
                return (await self.ask_any(many, timeout_s=timeout_s)).coordinators[0]
        except IndexError:
            raise Unreachable(f"{self} (a broker does not say who coordinates {key})") from None
        one = message_of(FindOneCoordinatorRequest, key=key, key_type=kind)
        return await self._ask_exactly_any(one, timeout_s)

    async def _ask_exactly_any(self, request: Any, timeout_s: float) -> Any:
        problems: list[str] = []
        for address in self._addresses():
            try:
                connection = await self._connection(address, timeout_s)
                return await connection.ask_exactly(request, timeout_s=timeout_s)
            except Unreachable as error:
                problems.append(str(error))
        raise Unreachable("; ".join(problems))

    def _addresses(self) -> list[HostPort]:
        """Return where brokers may be: those with a connection first, then all that are known, in any order."""
        known = dict.fromkeys([*((each.host, each.port) for each in self._brokers.values()), *self.bootstrap])
        shuffled = random.sample(list(known), len(known))
        return sorted(shuffled, key=lambda address: not self._is_connected(address))

    def _is_connected(self, address: HostPort) -> bool:
        connection = self._connections.get(address)
        return connection is not None and connection.is_usable

    async def _ask(self, address: HostPort, request: Any, timeout_s: float, *, is_exact: bool = False) -> Any:
        """Ask once; the time covers a connection that has to be opened."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        connection = await self._connection(address, timeout_s)
        ask = connection.ask_exactly if is_exact else connection.ask
        return await ask(request, timeout_s=max(deadline - loop.time(), 0.001))

    async def _connection(self, address: HostPort, timeout_s: float) -> AsyncConnection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections[address] if self._is_connected(address) else None
            if connection is None:
                connection = await self._open(address, timeout_s)
            expected_id = self._expected_id
            if expected_id is not None and self._recognized.get(address) is not connection:
                await _recognize(connection, expected_id, timeout_s)
                if expected_id == self._expected_id:
                    self._recognized[address] = connection
            return connection

    async def _open(self, address: HostPort, timeout_s: float) -> AsyncConnection:
        opened = await AsyncConnection.open(
            *address,
            security=self._security,
            client_id=self._client_id,
            timeout_s=min(timeout_s, CONNECT_TIMEOUT_S),
        )
        if self._is_closed:
            opened.close()
            raise Unreachable(f"{self} (it was closed here)")
        if (former := self._connections.get(address)) is not None:
            former.close()  # its login is about to end
        self._connections[address] = opened
        return opened


async def _recognize(connection: AsyncConnection | PipelinedConnection, expected_id: str, timeout_s: float) -> None:
    """See that a connection leads to the expected cluster.

    Raises:
        AnotherCluster: it does not; it is closed.
        Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster.metadata`.
    """
    request = message_of(MetadataRequest, topics=(), allow_auto_topic_creation=False)
    found_id = cluster_metadata(await connection.ask(request, timeout_s=timeout_s)).cluster_id
    if found_id != expected_id:
        connection.close()
        raise AnotherCluster(
            f"{connection.address} (the cluster {found_id or 'without an id'} answers there, and not"
            f" {expected_id or 'one without an id'})"
        )


def _has_moved(response: Any) -> bool:
    """Return whether an answer about a group says that another broker has to be asked, or this one later."""
    topics = getattr(response, "topics", ())
    partitions = (each for topic in topics for each in getattr(topic, "partitions", ()))
    said = (response, *getattr(response, "groups", ()), *partitions)
    return any(getattr(each, "error_code", ErrorCode.none) in _MOVED for each in said)
