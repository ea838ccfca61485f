"""Connections to the brokers of a cluster, of which any answers most questions.

Every request may be sent twice without harm, so one that got no answer is repeated, at another broker when one goes
away. Connections are secured as librdkafka's settings say.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ottla_core.client.blocking_connection import BlockingConnection
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_operations.cluster.cluster_view import BrokerView
from ottla_operations.errors import OperationError
from ottla_operations.kafka_access import CLIENT_ID, check_reachable, client_security, split_address

ROUNDS_MAX = 3


class UnsupportedApi(OperationError):
    """No broker that was asked has the API, or a version of it that we know."""


class BrokerConnections:
    """One connection to any broker, and one to each that is asked by name.

    Args:
        bootstrap: addresses of brokers.
        config: settings of a client, under librdkafka's names.
        answer_timeout_s: how long a broker may take to answer.

    Raises:
        OperationError: a setting cannot be used.
    """

    def __init__(self, bootstrap: str, config: Mapping[str, Any], *, answer_timeout_s: float) -> None:
        self._bootstrap = bootstrap
        self._config = {**config, "bootstrap.servers": bootstrap}
        self._answer_timeout_s = answer_timeout_s
        self._security = client_security(self._config)
        self._addresses = [split_address(address.strip()) for address in bootstrap.split(",")]
        self._known: list[tuple[str, int]] = []
        self._connection: BlockingConnection | None = None
        self._to_brokers: dict[int, BlockingConnection] = {}

    def close(self) -> None:
        """Close all of them."""
        for connection in (self._connection, *self._to_brokers.values()):
            if connection is not None:
                connection.close()

    def note_brokers(self, brokers: Iterable[BrokerView]) -> None:
        """Go by these addresses first from now on."""
        self._known = [(broker.host, broker.port) for broker in brokers]

    def ask(self, request: Any) -> Any:
        """Return any broker's answer to a request of the newest class.

        Raises:
            OperationError: the cluster cannot be reached, or does not let this client in.
        """
        problems: list[str] = []
        if self._connection is None and not self._known:
            check_reachable(self._bootstrap, self._config)
        for _ in range(ROUNDS_MAX):
            try:
                if self._connection is None or not self._connection.is_usable:
                    self._connection = self._connect_to_any()
                with _refusals():
                    return self._connection.ask(request)
            except Unreachable as error:
                problems.append(str(error))
                self._connection = None
        raise OperationError(
            f"cannot reach {problems[-1]}; start a local cluster with `ottla up`, or name another with --bootstrap"
        )

    def ask_broker(self, broker: BrokerView, request: Any) -> Any:
        """Return one broker's answer to a request of the newest class.

        Raises:
            Unreachable: it does not answer.
            OperationError: it does not let this client in, or has no such API.
        """
        with _refusals():
            connection = self._to_brokers.get(broker.id)
            if connection is None or not connection.is_usable:
                if connection is not None:
                    connection.close()
                connection = self._to_brokers[broker.id] = self._connect(broker.host, broker.port)
            return connection.ask(request)

    def _connect_to_any(self) -> BlockingConnection:
        if self._connection is not None:  # its session is over
            self._connection.close()
        problems, refusals = [], []
        for host, port in dict.fromkeys((*self._known, *self._addresses)):
            try:
                return self._connect(host, port)
            except Unreachable as error:
                problems.append(str(error))
            except (AuthenticationFailed, UnsupportedByBroker) as error:
                refusals.append(str(error))
        if refusals:  # others may come back, but this one has to be told
            raise OperationError("; ".join(refusals))
        raise Unreachable(", ".join(problems))

    def _connect(self, host: str, port: int) -> BlockingConnection:
        return BlockingConnection(
            host,
            port,
            security=self._security,
            client_id=self._config.get("client.id", CLIENT_ID),
            answer_timeout_s=self._answer_timeout_s,
        )


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what a broker does not want, and will not want the next time, into the command's errors."""
    try:
        yield
    except UnsupportedByBroker as error:
        raise UnsupportedApi(str(error)) from None
    except AuthenticationFailed as error:
        raise OperationError(str(error)) from None
