"""A connection to one broker for programs without an event loop: `protocol.py` over a blocking socket.

One request at a time, from one thread. A connection whose request got no answer is closed, since the answer to that
one might come for the next.
"""

import socket
import time
from contextlib import suppress
from typing import Any, Self

from ottla_core.client.errors import CLOSED_THERE, AuthenticationFailed, Unreachable, reason_of
from ottla_core.client.framing import LENGTH_SIZE
from ottla_core.client.protocol import ClientProtocol
from ottla_core.client.security import ClientSecurity
from ottla_core.random_ids import random_nonce

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 60.0


class BlockingConnection:
    """A connection to the broker at one address.

    Args:
        host: the broker's name or address, to which its certificate has to belong.
        port: where it listens.
        security: TLS and login.
        client_id: the name under which the broker counts us.
        connect_timeout_s: for a token, if one is needed, and for the connection and TLS.
        answer_timeout_s: how long the broker may be silent in the middle of an answer, or before it.

    Attributes:
        address: HOST:PORT, for messages.

    Raises:
        Unreachable: nothing there speaks Kafka's protocol, or nobody gives a token.
        AuthenticationFailed: one of both sides is not whom the other expects.
        UnsupportedByBroker: the broker does not know how to authenticate.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        security: ClientSecurity,
        client_id: str,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self.address = f"{host}:{port}"
        self._has_tls = security.tls is not None
        self._is_closed = False
        self._protocol = ClientProtocol(self.address, client_id, security.login_now(connect_timeout_s))
        self._expires_s: float | None = None
        try:
            self._socket = _connected(host, port, security, connect_timeout_s)
        except (OSError, UnicodeError) as error:
            raise self._problem(error) from None
        self._socket.settimeout(answer_timeout_s)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent: it is not closed here, and its SASL session is not about to end."""
        return not self._is_closed and (self._expires_s is None or time.monotonic() < self._expires_s)

    def close(self) -> None:
        """Close it."""
        self._is_closed = True
        self._socket.close()

    def ask(self, request: Any) -> Any:
        """Send a request of the newest class and return the response in the newest class.

        Raises:
            Unreachable: there was no answer; a broker that changes something may have done so.
            AuthenticationFailed: the broker only now says that it does not accept our certificate (TLS 1.3).
            UnsupportedByBroker: the broker does not serve this API.
        """
        return self._exchange(self._protocol.request(request))

    def ask_exactly(self, request: Any) -> Any:
        """Send a request in the version of its class, and return the response in that version's class.

        For APIs that no broker names among its own. Errors as with `ask`.
        """
        return self._exchange(self._protocol.request_exactly(request))

    def version_of(self, api_key: int) -> int:
        """Return the newest version of an API that both sides know.

        Raises:
            UnsupportedByBroker: there is none.
        """
        return self._protocol.version_of(api_key)

    def _begin(self) -> None:
        opening = self._protocol.opening(random_nonce())
        frame = next(opening)
        with suppress(StopIteration):
            while True:
                frame = opening.send(self._exchange(frame))
        if self._protocol.usable_for_s is not None:
            self._expires_s = time.monotonic() + self._protocol.usable_for_s

    def _exchange(self, frame: bytes) -> Any:
        if self._is_closed:
            raise Unreachable(f"{self.address} (the connection is closed)")
        try:
            self._socket.sendall(frame)
            length = self._receive(LENGTH_SIZE)
            answer = length + self._receive(self._protocol.response_size(length))
            return self._protocol.response(answer)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise self._problem(error) from None
            raise

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = self._socket.recv(count - len(received))
            if not piece:
                raise Unreachable(f"{self.address} ({CLOSED_THERE})")
            received += piece
        return bytes(received)

    def _problem(self, error: OSError | UnicodeError) -> AuthenticationFailed | Unreachable:
        if self._has_tls:
            import ssl  # noqa: PLC0415 - see the package

            from ottla_core.client.tls import tls_problem  # noqa: PLC0415

            if isinstance(error, ssl.SSLError):
                return tls_problem(self.address, error)
        return Unreachable(f"{self.address} ({reason_of(error)})")


def _connected(host: str, port: int, security: ClientSecurity, timeout_s: float) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=timeout_s)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security.tls is None:
            return connection
        return security.tls.wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise
