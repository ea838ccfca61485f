"""The connection without an event loop, at the hands of servers that are no brokers."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.static.primitive import i16

from ottla_core.client.blocking_connection import BlockingConnection
from ottla_core.client.errors import Unreachable, UnsupportedByBroker
from ottla_core.client.security import ClientSecurity
from ottla_core.wire.messages import API_VERSIONS_KEY, message_codec
from tests.support.free_ports import free_port

Behaviour = Callable[[socket.socket], None]


@contextmanager
def server(behaviour: Behaviour) -> Iterator[int]:
    """Treats every connection in the same way, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    behaviour(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def close_at_once(connection: socket.socket) -> None:
    connection.recv(1000)


def answer_http(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def answer_another_request(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"\0\0\0\x06\0\0\0\x63\0\0")


def say_nothing(connection: socket.socket) -> None:
    while connection.recv(1000):
        pass


def serve_api_versions_alone(connection: socket.socket) -> None:
    connection.recv(1000)
    versions = ApiVersion(api_key=i16(API_VERSIONS_KEY), min_version=i16(0), max_version=i16(0))
    response = ApiVersionsResponse(error_code=ErrorCode.none, api_keys=(versions,))
    connection.sendall(message_codec(API_VERSIONS_KEY, 0).encode_response(1, response))
    connection.recv(1000)


def connect(port: int, host: str = "127.0.0.1") -> BlockingConnection:
    return BlockingConnection(host, port, security=ClientSecurity(), client_id="test", answer_timeout_s=0.2)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (close_at_once, "it closed the connection"),
        (answer_http, "what listens there does not speak Kafka's protocol"),
        (answer_another_request, "it answered another request"),
        (say_nothing, "no answer in time"),
    ],
)
def test_what_is_no_broker_is_named_with_what_it_did(behaviour, message):
    with server(behaviour) as port, pytest.raises(Unreachable) as problem:
        connect(port)
    assert str(problem.value) == f"127.0.0.1:{port} ({message})"


def test_an_api_that_a_broker_does_not_have_is_named():
    with server(serve_api_versions_alone) as port, connect(port) as connection:
        assert connection.version_of(API_VERSIONS_KEY) == 0
        with pytest.raises(UnsupportedByBroker, match="does not have the API UnregisterBroker"):
            connection.ask(UnregisterBrokerRequest(broker_id=1))
        assert connection.is_usable


def test_a_connection_that_got_no_answer_is_used_no_more():
    with server(serve_api_versions_alone) as port, connect(port) as connection:
        with pytest.raises(Unreachable, match="it closed the connection"):
            connection.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
        assert not connection.is_usable
        with pytest.raises(Unreachable, match="the connection is closed"):
            connection.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"))


@pytest.mark.parametrize("host", ["127.0.0.1", "a..b", "x" * 64])
def test_where_nobody_is_the_address_is_named(host: str):
    port = free_port()
    with pytest.raises(Unreachable) as problem:
        connect(port, host)
    assert str(problem.value).startswith(f"{host}:{port} (")
