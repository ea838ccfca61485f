"""A connection to one broker for the group protocol, which librdkafka does not let us speak ourselves.

One request at a time; the newest version that both sides know is used, and requests and responses are given in the
newest message classes whatever the version. TLS and SASL as the worker's client settings say. A connection whose
request was not answered in time, or was cancelled, is closed, since the answer to that one might come for the next.
"""

import asyncio
import ssl
from datetime import timedelta
from typing import Any, Self

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.static.protocol import Entity

from ottla_connect.group.client_security import ClientSecurity, Login
from ottla_connect.group.sasl import AuthenticationFailed, begin
from ottla_core.errors import InvalidRequest
from ottla_core.wire.conversion import convert
from ottla_core.wire.messages import (
    API_VERSIONS_KEY,
    LENGTH_PREFIX_SIZE,
    MessageCodec,
    RequestHeader,
    api_name,
    message_codec,
    newest_version,
)

CONNECT_TIMEOUT_S = 3.0
RESPONSE_BYTES_MAX = 100 * 1024 * 1024
SASL_ROUNDS_MAX = 8
SASL_LIFETIME_SHARE = 0.85
"""After this part of a SASL session (KIP-368) a connection is used no more, as the broker is about to end it."""


class Unreachable(Exception):
    """The broker cannot be reached, went away, is too slow, or answers no Kafka; the message names it."""


class UnsupportedByBroker(Exception):
    """The broker does not have an API, or no version of it that we know."""


class KafkaConnection:
    """A connection to the broker at one address.

    Attributes:
        address: HOST:PORT, for messages.
        closed: whether nothing can be asked any more.
    """

    def __init__(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str
    ) -> None:
        self.address = address
        self.closed = False
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._next_correlation_id = 1
        self._versions: dict[int, tuple[int, int]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._expires_s: float | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, *, security: ClientSecurity, client_id: str, timeout_s: float = CONNECT_TIMEOUT_S
    ) -> Self:
        """Connect, and log in.

        Raises:
            Unreachable: nothing there speaks Kafka's protocol, as far as we hear.
            AuthenticationFailed: one of both sides is not whom the other expects.
            UnsupportedByBroker: the broker does not know how to authenticate.
        """
        address = f"{host}:{port}"
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=security.tls, server_hostname=host if security.tls else None
                )
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(f"{address}: {error.verify_message or error}") from None
        except OSError as error:
            raise Unreachable(f"{address} ({_reason(error)})") from None
        connection = cls(address, reader, writer, client_id)
        try:
            await connection._begin(security.login, timeout_s)
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
        """Close it; whoever waits for an answer gets `Unreachable`."""
        self.closed = True
        self._writer.transport.abort()  # nothing that has not been sent is worth waiting for

    async def ask(self, request: Any, *, timeout_s: float) -> Any:
        """Send a request of the newest class and return the response in the newest class.

        Raises:
            Unreachable: there was no answer; what the request asks for may have been done.
            UnsupportedByBroker: the broker does not serve this API.
        """
        api_key: int = request.__api_key__
        version = self.version_of(api_key)
        codec = message_codec(api_key, version)
        response = await self._exchange(codec, api_key, version, convert(request, codec.request_type), timeout_s)
        return convert(response, message_codec(api_key, newest_version(api_key)).response_type)

    async def ask_exactly(self, request: Any, *, timeout_s: float) -> Any:
        """Send a request in the version of its class, and return the response in that version's class.

        For APIs whose older versions say things in another way than the newest. Errors as with `ask`.
        """
        api_key, version = request.__api_key__, request.__version__
        return await self._exchange(message_codec(api_key, version), api_key, version, request, timeout_s)

    def version_of(self, api_key: int) -> int:
        """Return the newest version of an API that both sides know.

        Raises:
            UnsupportedByBroker: there is none.
        """
        oldest, newest = self._versions.get(api_key, (0, -1))
        known = schema_name_map[api_key_map[api_key]]
        version = max((each for each in known if oldest <= each <= newest), default=None)
        if version is None:
            raise UnsupportedByBroker(f"{self.address} does not have the API {api_name(api_key)}")
        return version

    async def _begin(self, login: Login | None, timeout_s: float) -> None:
        codec = message_codec(API_VERSIONS_KEY, 0)
        response = await self._exchange(codec, API_VERSIONS_KEY, 0, codec.request_type(), timeout_s)
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        if login is not None:
            await self._log_in(login, timeout_s)

    async def _log_in(self, login: Login, timeout_s: float) -> None:
        """Authenticate as KIP-152 has it: SaslHandshake, then SaslAuthenticate until both are content."""
        handshake = await self.ask(SaslHandshakeRequest(mechanism=login.mechanism), timeout_s=timeout_s)
        if handshake.error_code is not ErrorCode.none:
            has = ", ".join(handshake.mechanisms)
            raise AuthenticationFailed(f"{self.address} does not take {login.mechanism}, but {has}")
        conversation = begin(login.mechanism, login.username, login.password)
        message: bytes | None = conversation.first()
        for _ in range(SASL_ROUNDS_MAX):
            if message is None:
                return
            answer = await self.ask(SaslAuthenticateRequest(auth_bytes=message), timeout_s=timeout_s)
            if answer.error_code is not ErrorCode.none:
                reason = answer.error_message or answer.error_code.name
                raise AuthenticationFailed(f"{self.address} does not accept {login.username}: {reason}")
            if answer.session_lifetime > timedelta(0):
                lifetime_s = answer.session_lifetime.total_seconds() * SASL_LIFETIME_SHARE
                self._expires_s = asyncio.get_running_loop().time() + lifetime_s
            message = conversation.respond(answer.auth_bytes)
        raise AuthenticationFailed(f"{self.address} has not finished after {SASL_ROUNDS_MAX} SASL messages")

    async def _exchange(
        self, codec: MessageCodec, api_key: int, version: int, request: Entity, timeout_s: float
    ) -> Any:
        async with self._one_at_a_time:
            if self.closed:
                raise Unreachable(f"{self.address} (the connection is closed)")
            correlation_id = self._next_correlation_id
            self._next_correlation_id = correlation_id % (2**31 - 1) + 1
            header = RequestHeader(api_key, version, correlation_id, self._client_id, 0)
            frame = codec.encode_request(header, request)
            try:
                async with asyncio.timeout(timeout_s):
                    self._writer.write(len(frame).to_bytes(LENGTH_PREFIX_SIZE, "big") + frame)
                    await self._writer.drain()
                    answer = await self._receive()
                if int.from_bytes(answer[4:8], "big") != correlation_id:
                    raise Unreachable(f"{self.address} (it answered another request)")
                return codec.read_response(answer)
            except BaseException as error:
                self.close()
                if isinstance(error, InvalidRequest):
                    raise Unreachable(f"{self.address} ({error.message})") from None
                if isinstance(error, OSError | EOFError):
                    raise Unreachable(f"{self.address} ({_reason(error)})") from None
                raise

    async def _receive(self) -> bytes:
        prefix = await self._reader.readexactly(LENGTH_PREFIX_SIZE)
        size = int.from_bytes(prefix, "big")
        if not LENGTH_PREFIX_SIZE <= size <= RESPONSE_BYTES_MAX:
            raise Unreachable(f"{self.address} (what listens there does not speak Kafka's protocol)")
        return prefix + await self._reader.readexactly(size)


def _reason(error: OSError | EOFError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, EOFError):
        return "it closed the connection"
    return error.strerror or str(error) or type(error).__name__
