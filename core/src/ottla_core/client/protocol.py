"""The client's side of one connection, without I/O: a shell sends the frames that it makes, and shows it what comes.

A connection begins with `opening`, which asks for the broker's versions and logs in (KIP-152, KIP-368). Afterwards
the newest version that both sides know is used, and requests and responses are in the newest message classes whatever
the version. A broker answers in order, so a response belongs to the oldest request without one.

Pure.
"""

from collections import deque
from collections.abc import Generator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.static.protocol import Entity

from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.framing import CorrelationIds, correlation_id_of, request_frame, response_size
from ottla_core.errors import InvalidRequest, InvalidResponse
from ottla_core.wire.conversion import convert
from ottla_core.wire.messages import API_VERSIONS_KEY, api_name, message_codec, newest_version

if TYPE_CHECKING:
    from ottla_core.client.security import Login

RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
SASL_ROUNDS_MAX: Final = 8
SASL_LIFETIME_SHARE: Final = 0.85
"""After this part of a SASL session (KIP-368) a connection is used no more, as the broker is about to end it."""

Opening = Generator[bytes, Any, None]
"""Yields frames to send, and wants the response to each."""


class _Expected(NamedTuple):
    """A response that is to come, and the class in which it is wanted."""

    correlation_id: int
    api_key: int
    version: int
    wanted_type: type[Entity]


class ClientProtocol:
    """The state of one connection.

    Attributes:
        address: HOST:PORT, for messages.
        usable_for_s: seconds after the opening in which requests may be sent; None for no limit.
    """

    def __init__(
        self,
        address: str,
        client_id: str,
        login: "Login | None" = None,
        *,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self.address = address
        self.usable_for_s: float | None = None
        self._client_id = client_id
        self._login = login
        self._response_bytes_max = response_bytes_max
        self._correlation_ids = CorrelationIds()
        self._versions: dict[int, tuple[int, int]] = {}
        self._expected: deque[_Expected] = deque()

    def opening(self, nonce: str) -> Opening:
        """Return what has to be said before anything else.

        Args:
            nonce: drawn for this connection alone; a login by SCRAM needs it.

        Raises:
            AuthenticationFailed: from `send`: one of both sides is not whom the other expects.
            UnsupportedByBroker: from `send`: the broker does not know how to authenticate.
        """
        codec = message_codec(API_VERSIONS_KEY, 0)
        served = yield self.request_exactly(codec.request_type())
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in served.api_keys}
        if self._login is not None:
            yield from self._logging_in(self._login, nonce)

    def request(self, request: Any) -> bytes:
        """Return the frame of a request of the newest class; its response will be of the newest class.

        Raises:
            UnsupportedByBroker: the broker does not serve this API.
        """
        api_key: int = request.__api_key__
        version = self.version_of(api_key)
        wanted_type = message_codec(api_key, newest_version(api_key)).response_type
        request_type = message_codec(api_key, version).request_type
        return self._frame(api_key, version, convert(request, request_type), wanted_type)

    def request_exactly(self, request: Any) -> bytes:
        """Return the frame of a request in the version of its class; its response will be of that version's class.

        For APIs whose older versions say things in another way than the newest.
        """
        api_key, version = request.__api_key__, request.__version__
        return self._frame(api_key, version, request, message_codec(api_key, version).response_type)

    def response_size(self, length: bytes) -> int:
        """Return how many bytes belong to the response that begins with this length.

        Raises:
            Unreachable: no broker sends so many, or so few.
        """
        try:
            return response_size(length, 0, self._response_bytes_max)
        except InvalidResponse:
            raise Unreachable(f"{self.address} (what listens there does not speak Kafka's protocol)") from None

    def response(self, frame: bytes) -> Any:
        """Return the response to the oldest request that has none.

        Args:
            frame: with its length.

        Raises:
            Unreachable: the bytes are no such response.
        """
        expected = self._expected.popleft()
        if correlation_id_of(frame) != expected.correlation_id:
            raise Unreachable(f"{self.address} (it answered another request)")
        try:
            found = message_codec(expected.api_key, expected.version).read_response(frame)
        except InvalidRequest as error:
            raise Unreachable(f"{self.address} ({error.message})") from None
        return convert(found, expected.wanted_type)

    def version_of(self, api_key: int) -> int:
        """Return the newest version of an API that both sides know.

        Raises:
            UnsupportedByBroker: there is none.
        """
        known = schema_name_map[api_key_map[api_key]]
        return self.version_among(api_key, min(known), max(known))

    def version_among(self, api_key: int, oldest: int, newest: int) -> int:
        """Return the newest version of an API that the broker knows, between two that we know.

        Raises:
            UnsupportedByBroker: there is none.
        """
        served_oldest, served_newest = self._versions.get(api_key, (0, -1))
        version = min(newest, served_newest)
        if version < max(oldest, served_oldest):
            raise UnsupportedByBroker(f"{self.address} does not have the API {api_name(api_key)}")
        return version

    def _frame(self, api_key: int, version: int, request: Entity, wanted_type: type[Entity]) -> bytes:
        correlation_id = self._correlation_ids.next()
        frame = request_frame(api_key, version, correlation_id, self._client_id, request)
        self._expected.append(_Expected(correlation_id, api_key, version, wanted_type))
        return frame

    def _logging_in(self, login: "Login", nonce: str) -> Opening:
        """SaslHandshake, then SaslAuthenticate until both sides are content."""
        from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest  # noqa: PLC0415 - see the package
        from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest  # noqa: PLC0415

        from ottla_core.client.sasl import begin  # noqa: PLC0415

        handshake = yield self.request(SaslHandshakeRequest(mechanism=login.mechanism))
        if handshake.error_code is not ErrorCode.none:
            has = ", ".join(handshake.mechanisms)
            raise AuthenticationFailed(f"{self.address} does not take {login.mechanism}, but {has}")
        conversation = begin(login.mechanism, login.username, login.password, login.extensions, nonce=nonce)
        message: bytes | None = conversation.first()
        for _ in range(SASL_ROUNDS_MAX):
            if message is None:
                return
            answer = yield self.request(SaslAuthenticateRequest(auth_bytes=message))
            if answer.error_code is not ErrorCode.none:
                reason = answer.error_message or answer.error_code.name
                raise AuthenticationFailed(f"{self.address} does not accept {login.username}: {reason}")
            if answer.session_lifetime > timedelta(0):
                self.usable_for_s = answer.session_lifetime.total_seconds() * SASL_LIFETIME_SHARE
            try:
                message = conversation.respond(answer.auth_bytes)
            except AuthenticationFailed as error:
                raise AuthenticationFailed(f"{self.address}: {error}") from None
        raise AuthenticationFailed(f"{self.address} has not finished after {SASL_ROUNDS_MAX} SASL messages")
