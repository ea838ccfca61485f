"""A minimal Kafka client over one blocking socket, for tests that must control every byte.

It knows frames (a 4-byte length, then the bytes) and messages (kio's dataclasses), and nothing of retries,
metadata or batching. `send_frame` and `read_frame` are enough to send garbage; `ask` does one honest request.
The broker closing the connection is `Closed`; answering nothing in time is `Silence`.
"""

import io
import socket
import ssl
import struct
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol, Self

from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

API_VERSIONS_KEY = 18
ANSWER_DEADLINE_S = 10.0
CLIENT_ID = "raw-client"


class Closed(ConnectionError):
    """The broker closed the connection."""


class Silence(AssertionError):
    """The broker neither answered nor closed before the deadline."""


class RawClient:
    """One connection to one broker."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        receive_buffer_bytes: int | None = None,
        tls: ssl.SSLContext | None = None,
        within_s: float = ANSWER_DEADLINE_S,
    ):
        self._within_s = within_s
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(within_s)
        try:
            self._socket.connect((host, port))
        except OSError:
            self._socket.close()
            raise
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._next_correlation_id = 1

    @classmethod
    def to(cls, bootstrap: str, *, within_s: float = ANSWER_DEADLINE_S) -> Self:
        """Connects to a `host:port` address; `within_s` is for that, and for each answer."""
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        return cls(host, int(port), within_s=within_s)

    def send_bytes(self, data: bytes) -> None:
        """Sends bytes as they are.

        Raises:
            Closed: the broker has closed the connection.
        """
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed("while sending") from error

    def send_frame(self, payload: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(payload)) + payload)

    def read_frame(self, *, within_s: float | None = None) -> bytes:
        """The next response's payload.

        Raises:
            Closed: the broker closed the connection instead.
            Silence: it did neither in time.
        """
        self._socket.settimeout(self._within_s if within_s is None else within_s)
        (length,) = struct.unpack(">i", self._read_exactly(4))
        return self._read_exactly(length)

    def read_bytes(self, count: int) -> bytes:
        """The next bytes, whatever frame they belong to.

        Raises:
            Closed: the broker closed the connection instead.
            Silence: they did not come in time.
        """
        self._socket.settimeout(ANSWER_DEADLINE_S)
        return self._read_exactly(count)

    def is_closed(self, *, within_s: float = ANSWER_DEADLINE_S) -> bool:
        """Whether the broker closes the connection; reads and drops whatever still arrives."""
        self._socket.settimeout(within_s)
        try:
            while self._socket.recv(65536):
                pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True

    def send_request(self, request: Any, *, client_id: str | None = CLIENT_ID) -> int:
        """Sends one kio request and returns its correlation id."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        self.send_frame(encode_request(request, correlation_id, client_id=client_id))
        return correlation_id

    def ask(self, request: Any, *, within_s: float | None = None) -> Any:
        """Sends one kio request and returns the decoded kio response of the same version."""
        correlation_id = self.send_request(request)
        answered_id, response = decode_response(self.read_frame(within_s=within_s), response_type_of(request))
        assert answered_id == correlation_id, f"correlation id {answered_id} instead of {correlation_id}"
        return response

    def half_close(self) -> None:
        """Says that no more will be sent, while still reading."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            try:
                piece = self._socket.recv(count - len(received))
            except ConnectionResetError as error:
                raise Closed(f"after {len(received)} of {count} bytes") from error
            except TimeoutError as error:
                raise Silence(f"after {len(received)} of {count} bytes") from error
            if not piece:
                raise Closed(f"after {len(received)} of {count} bytes")
            received += piece
        return bytes(received)


class Connect(Protocol):
    """Makes a connection to an address, as `RawClient.to` does for a listener that lets everybody in."""

    def __call__(self, address: str, /, *, within_s: float = ANSWER_DEADLINE_S) -> RawClient: ...


def request_type(api_key: int, version: int) -> type[Any]:
    """kio's request class of an API and version."""
    return _load(api_key, version, EntityType.request)


def response_type_of(request: Any) -> type[Any]:
    """kio's response class that answers this request."""
    return _load(request.__api_key__, request.__version__, EntityType.response)


def encode_request(request: Any, correlation_id: int, *, client_id: str | None = CLIENT_ID) -> bytes:
    """Header and body of a request, without the length prefix."""
    header_type = request.__header_schema__
    header = header_type(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    buffer = io.BytesIO()
    entity_writer(header_type)(buffer, header)
    entity_writer(type(request))(buffer, request)
    return buffer.getvalue()


def decode_response(payload: bytes, response_type: type[Any]) -> tuple[int, Any]:
    """The correlation id and the decoded body; every byte must be used up."""
    view = memoryview(payload)
    header_type = response_type.__header_schema__
    header, header_size = entity_reader(header_type)(view, 0)
    body, body_size = entity_reader(response_type)(view, header_size)
    used = header_size + body_size
    assert used == len(payload), f"{len(payload) - used} bytes left after {response_type.__name__}"
    return header.correlation_id, body


def answers_api_versions(host: str, port: int) -> bool:
    """Whether something on this port speaks the Kafka protocol."""
    try:
        with RawClient(host, port) as client:
            return bool(client.ask(request_type(API_VERSIONS_KEY, 0)()).error_code == 0)
    except (OSError, Silence):
        return False


def _load(api_key: int, version: int, entity: Any) -> type[Any]:
    module_name, _, class_name = schema_name_map[api_key_map[api_key]][version][entity].partition(":")
    loaded: type[Any] = getattr(import_module(module_name), class_name)
    return loaded
