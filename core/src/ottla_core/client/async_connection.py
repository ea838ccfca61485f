"""A connection to one broker for programs with an event loop: `protocol.py` over asyncio's streams.

One request at a time. A connection whose request was not answered in time, or was cancelled, is closed, since the
answer to that one might come for the next.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Any, Self

from ottla_core.client.errors import Unreachable, reason_of
from ottla_core.client.framing import LENGTH_SIZE
from ottla_core.client.protocol import ClientProtocol
from ottla_core.client.security import ClientSecurity
from ottla_core.client.tls import tls_problem
from ottla_core.random_ids import random_nonce

CONNECT_TIMEOUT_S = 3.0


class AsyncConnection:
    """A connection to the broker at one address.

    Attributes:
        address: HOST:PORT, for messages.
        closed: whether nothing can be asked any more.
    """

    def __init__(self, protocol: ClientProtocol, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = protocol.address
        self.closed = False
        self._protocol = protocol
        self._reader = reader
        self._writer = writer
        self._one_at_a_time = asyncio.Lock()
        self._expires_s: float | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, *, security: ClientSecurity, client_id: str, timeout_s: float = CONNECT_TIMEOUT_S
    ) -> Self:
        """Connect, and log in.

        Args:
            host: the broker's name or address, to which its certificate has to belong.
            port: where it listens.
            security: TLS and login.
            client_id: the name under which the broker counts us.
            timeout_s: for a token, for the connection, and for each answer after it.

        Raises:
            Unreachable: nothing there speaks Kafka's protocol, or nobody gives a token, as far as we hear.
            AuthenticationFailed: one of both sides is not whom the other expects.
            UnsupportedByBroker: the broker does not know how to authenticate.
        """
        address = f"{host}:{port}"
        # A token is asked for by a blocking call, and before the broker waits for it.
        login = await asyncio.to_thread(security.login_now, timeout_s) if security.tokens else security.login
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=security.tls, server_hostname=host if security.tls else None
                )
        except ssl.SSLError as error:
            raise tls_problem(address, error) from None
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"{address} ({reason_of(error)})") from None
        connection = cls(ClientProtocol(address, client_id, login), reader, writer)
        try:
            await connection._begin(timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent: it is open, and its SASL session is not about to end."""
        if self.closed or self._reader.at_eof():
            return False
        return self._expires_s is None or asyncio.get_running_loop().time() < self._expires_s

    def close(self) -> None:
        """Close it; requests under way end with `Unreachable`."""
        self.closed = True
        self._writer.transport.abort()  # nothing that has not been sent is worth waiting for

    async def ask(self, request: Any, *, timeout_s: float) -> Any:
        """Send a request of the newest class and return the response in the newest class.

        Raises:
            Unreachable: there was no answer; what the request asks for may have been done.
            AuthenticationFailed: the broker only now says that it does not accept our certificate (TLS 1.3).
            UnsupportedByBroker: the broker does not serve this API.
        """
        async with self._one_at_a_time:
            return await self._exchange(self._protocol.request(request), timeout_s)

    async def ask_exactly(self, request: Any, *, timeout_s: float) -> Any:
        """Send a request in the version of its class, and return the response in that version's class.

        For APIs whose older versions say things in another way than the newest. Errors as with `ask`.
        """
        async with self._one_at_a_time:
            return await self._exchange(self._protocol.request_exactly(request), timeout_s)

    def version_of(self, api_key: int) -> int:
        """Return the newest version of an API that both sides know.

        Raises:
            UnsupportedByBroker: there is none.
        """
        return self._protocol.version_of(api_key)

    async def _begin(self, timeout_s: float) -> None:
        opening = self._protocol.opening(random_nonce())
        frame = next(opening)
        with suppress(StopIteration):
            while True:
                frame = opening.send(await self._exchange(frame, timeout_s))
        if self._protocol.usable_for_s is not None:
            self._expires_s = asyncio.get_running_loop().time() + self._protocol.usable_for_s

    async def _exchange(self, frame: bytes, timeout_s: float) -> Any:
        if self.closed:
            raise Unreachable(f"{self.address} (the connection is closed)")
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(frame)
                await self._writer.drain()
                length = await self._reader.readexactly(LENGTH_SIZE)
                answer = length + await self._reader.readexactly(self._protocol.response_size(length))
            return self._protocol.response(answer)
        except BaseException as error:
            self.close()
            if isinstance(error, ssl.SSLError):
                raise tls_problem(self.address, error) from None
            if isinstance(error, OSError | EOFError):
                raise Unreachable(f"{self.address} ({reason_of(error)})") from None
            raise
