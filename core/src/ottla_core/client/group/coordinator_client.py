"""Requests to the group's coordinator, whichever broker that is at the time.

There are two connections, since a broker answers a connection's requests in order and JoinGroup waits for the other
workers: one for the rebalance, one for heartbeats. The coordinator is asked for at the bootstrap addresses, and at
those of the brokers that were in the cluster when it was last asked.
"""

import asyncio
import enum
import random
from typing import Any

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v2.request import FindCoordinatorRequest as FindOneCoordinatorRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.metadata.v13.request import MetadataRequest

from ottla_core.client.async_connection import AsyncConnection
from ottla_core.client.errors import AuthenticationFailed, Refused, Unreachable, UnsupportedByBroker
from ottla_core.client.security import ClientSecurity
from ottla_core.wire.conversion import message_of

FIND_TIMEOUT_S = 5.0
LEARNT_BROKERS_MAX = 100
FIRST_OF_MANY_KEYS = 4
"""From this version FindCoordinator names many groups; brokers before Kafka 3.0 do not have it."""

log = structlog.get_logger("group")

HostPort = tuple[str, int]


class ConnectionPurpose(enum.Enum):
    """What a connection is for."""

    REBALANCE = "rebalance"
    HEARTBEAT = "heartbeat"


class CoordinatorClient:
    """Asks the coordinator of one group."""

    def __init__(self, bootstrap: list[HostPort], group_id: str, *, security: ClientSecurity, client_id: str) -> None:
        self._bootstrap = bootstrap
        self._learnt: list[HostPort] = []
        self._group_id = group_id
        self._security = security
        self._client_id = client_id
        self._coordinator: HostPort | None = None
        self._connections: dict[ConnectionPurpose, AsyncConnection] = {}
        self._finding = asyncio.Lock()
        self._has_been_accepted = False

    async def ask(self, purpose: ConnectionPurpose, request: Any, *, timeout_s: float) -> Any:
        """Return the coordinator's response, both in the newest classes.

        A failure closes the connection, and the next request looks for the coordinator anew.

        Raises:
            Unreachable: there was no answer; the request may have been carried out.
            Refused: we may not ask, or the broker is too old.
        """
        try:
            connection = await self._connection(purpose)
            return await connection.ask(request, timeout_s=timeout_s)
        except Unreachable:
            self.forget()
            raise
        except AuthenticationFailed as error:
            self.forget()
            if self._has_been_accepted:  # then a broker that has just started may not know yet who we are
                raise Unreachable(str(error)) from None
            raise Refused(str(error)) from None
        except UnsupportedByBroker as error:
            raise Refused(str(error)) from None

    def forget(self) -> None:
        """Close all connections, whose requests fail, and look for the coordinator before the next request."""
        self._coordinator = None
        for purpose in ConnectionPurpose:
            self.abandon(purpose)

    def abandon(self, purpose: ConnectionPurpose) -> None:
        """Close a connection; the request that it waits for fails."""
        connection = self._connections.pop(purpose, None)
        if connection is not None:
            connection.close()

    async def _connection(self, purpose: ConnectionPurpose) -> AsyncConnection:
        connection = self._connections.get(purpose)
        if connection is not None and connection.is_usable:
            return connection
        self.abandon(purpose)
        async with self._finding:
            coordinator = self._coordinator or await self._find()
            self._coordinator = coordinator
        connection = await self._open(coordinator)
        self._connections[purpose] = connection
        return connection

    async def _open(self, address: HostPort) -> AsyncConnection:
        connection = await AsyncConnection.open(*address, security=self._security, client_id=self._client_id)
        self._has_been_accepted = True
        return connection

    async def _find(self) -> HostPort:
        """Return the coordinator's address, from the first broker that knows it.

        Raises:
            Unreachable: no broker does.
            AuthenticationFailed, UnsupportedByBroker, Refused: a broker will not tell.
        """
        known = list(dict.fromkeys([*self._bootstrap, *self._learnt]))
        problems = []
        for address in random.sample(known, len(known)):
            try:
                connection = await self._open(address)
            except Unreachable as error:
                problems.append(str(error))
                continue
            try:
                coordinator = await self._ask_for_coordinator(connection)
                await self._learn_brokers(connection)
            except Unreachable as error:
                problems.append(str(error))
                continue
            finally:
                connection.close()
            log.info("coordinator-found", group=self._group_id, host=coordinator[0], port=coordinator[1])
            return coordinator
        raise Unreachable("; ".join(problems))

    async def _ask_for_coordinator(self, connection: AsyncConnection) -> HostPort:
        if connection.version_of(FindCoordinatorRequest.__api_key__) >= FIRST_OF_MANY_KEYS:
            many = FindCoordinatorRequest(coordinator_keys=(self._group_id,))
            coordinator = (await connection.ask(many, timeout_s=FIND_TIMEOUT_S)).coordinators[0]
        else:
            coordinator = await connection.ask_exactly(
                FindOneCoordinatorRequest(key=self._group_id), timeout_s=FIND_TIMEOUT_S
            )
        if coordinator.error_code is ErrorCode.group_authorization_failed:
            raise Refused(f"{connection.address}: not allowed to use the group {self._group_id} (ACL: READ)")
        if coordinator.error_code is not ErrorCode.none:
            raise Unreachable(f"{connection.address} (no coordinator: {coordinator.error_code.name})")
        return coordinator.host, int(coordinator.port)

    async def _learn_brokers(self, connection: AsyncConnection) -> None:
        """Note where the cluster's brokers are, since those of the bootstrap addresses may be down the next time."""
        request = message_of(MetadataRequest, topics=())
        response = await connection.ask(request, timeout_s=FIND_TIMEOUT_S)
        self._learnt = [(broker.host, int(broker.port)) for broker in response.brokers][:LEARNT_BROKERS_MAX]
