"""A blocking connection to one broker, for the administrative requests that librdkafka does not have.

One request at a time; the newest version that both sides know is used, and requests and responses are given in the
newest message classes whatever the version. There is no encryption and no authentication.
"""

import socket
from typing import Any, Self

from kio.schema.index import api_key_map, schema_name_map
from kio.static.protocol import Entity

from ottla.errors import CommandError
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

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 60.0
RESPONSE_MAX_BYTES = 1 << 30
CLIENT_ID = "ottla"


class ConnectionLost(Exception):
    """The broker cannot be reached, went away, or answers no Kafka; the message names it."""


class UnsupportedApi(CommandError):
    """The broker does not have the API, or no version of it that we know."""


class AdminConnection:
    """A connection to the broker at one address.

    Attributes:
        address: where it goes, for messages.
    """

    def __init__(self, host: str, port: int, *, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Connect.

        Raises:
            ConnectionLost: nothing there speaks Kafka's protocol.
        """
        self.address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        except OSError as error:
            raise ConnectionLost(f"{self.address} ({error.strerror or error})") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(answer_timeout_s)
        self._next_correlation_id = 1
        try:
            self._versions = self._ask_versions()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def supports(self, api_key: int) -> bool:
        """Return whether there is a version of the API that both sides know."""
        return self._version_of(api_key) is not None

    def ask(self, request: Any) -> Any:
        """Send a request of the newest class and return the response in the newest class.

        Raises:
            ConnectionLost: there was no answer; a broker that changes something may have done so.
            UnsupportedApi: the broker does not serve this API.
        """
        api_key: int = request.__api_key__
        version = self._version_of(api_key)
        if version is None:
            raise UnsupportedApi(f"{self.address} does not have the API {api_name(api_key)}")
        codec = message_codec(api_key, version)
        response = self._exchange(codec, api_key, version, convert(request, codec.request_type))
        return convert(response, message_codec(api_key, newest_version(api_key)).response_type)

    def _version_of(self, api_key: int) -> int | None:
        oldest, newest = self._versions.get(api_key, (0, -1))
        known = schema_name_map[api_key_map[api_key]]
        return max((version for version in known if oldest <= version <= newest), default=None)

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        codec = message_codec(API_VERSIONS_KEY, 0)
        response = self._exchange(codec, API_VERSIONS_KEY, 0, codec.request_type())
        return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    def _exchange(self, codec: MessageCodec, api_key: int, version: int, request: Entity) -> Any:
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        header = RequestHeader(api_key, version, correlation_id, CLIENT_ID, 0)
        frame = codec.encode_request(header, request)
        try:
            self._socket.sendall(len(frame).to_bytes(LENGTH_PREFIX_SIZE, "big") + frame)
            prefix = self._receive(LENGTH_PREFIX_SIZE)
            size = int.from_bytes(prefix, "big")
            if not LENGTH_PREFIX_SIZE <= size <= RESPONSE_MAX_BYTES:
                raise ConnectionLost(f"{self.address} (what listens there does not speak Kafka's protocol)")
            answer = prefix + self._receive(size)
        except OSError as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
            raise ConnectionLost(f"{self.address} ({reason})") from None
        if int.from_bytes(answer[4:8], "big") != correlation_id:
            raise ConnectionLost(f"{self.address} (it answered another request)")
        try:
            return codec.read_response(answer)
        except InvalidRequest as error:
            raise ConnectionLost(f"{self.address} ({error.message})") from None

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = self._socket.recv(count - len(received))
            if not piece:
                raise ConnectionLost(f"{self.address} (it closed the connection)")
            received += piece
        return bytes(received)
