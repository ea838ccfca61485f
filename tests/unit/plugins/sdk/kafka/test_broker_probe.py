"""What listens at an address that is to be a broker's; each stands on a real port."""

import http.server
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ottla_sdk.kafka import broker_probe
from ottla_sdk.kafka.broker_probe import (
    AN_HTTP_SERVER,
    API_VERSIONS_REQUEST,
    CLOSES,
    NO_KAFKA,
    NO_TLS,
    SAYS_NOTHING,
    WANTS_TLS,
    problem_of_answer,
    problems_of,
)
from tests.support.free_ports import free_port
from tests.support.servers.certificates import Certificates

ANSWER = b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"
"""An ApiVersions response that names no API."""


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_probe, "PROBE_WITHIN_S", 2.0)
    monkeypatch.setattr(broker_probe, "SILENCE_S", 0.3)
    monkeypatch.setattr(broker_probe, "OTHER_PROTOCOL_S", 0.3)


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port on loopback where each connection is handed to `answer`, in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=quietly, args=(connection,), daemon=True).start()

        def quietly(connection: socket.socket) -> None:
            with connection, suppress(OSError):  # the probe has gone
                answer(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def a_broker(connection: socket.socket) -> None:
    if connection.recv(1024) == API_VERSIONS_REQUEST:
        connection.sendall(ANSWER)
        connection.recv(1)


def silence(connection: socket.socket) -> None:
    while connection.recv(1024):
        pass


def an_end(connection: socket.socket) -> None:
    connection.recv(1024)


def other_words(connection: socket.socket) -> None:
    connection.sendall(b"220 mail.example.org ESMTP\r\n")
    connection.recv(1024)


def problem_at(port: int, *, with_tls: bool = False) -> str | None:
    found = problems_of([("127.0.0.1", port)], with_tls=with_tls)
    return None if found is None else found[0]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [(a_broker, None), (silence, SAYS_NOTHING), (an_end, CLOSES), (other_words, NO_KAFKA)],
)
def test_it_is_told_what_answers(answer: Callable[[socket.socket], None], problem: str | None) -> None:
    with listening(answer) as port:
        assert problem_at(port) == problem


def test_an_http_server_is_recognized_although_it_waits_for_the_end_of_a_line() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert problem_at(server.server_address[1]) == AN_HTTP_SERVER
        assert problem_at(server.server_address[1], with_tls=True) in (AN_HTTP_SERVER, SAYS_NOTHING, NO_KAFKA)
    finally:
        server.shutdown()
        server.server_close()


def test_a_port_with_tls_and_a_client_without_and_the_other_way_round(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = Certificates(tmp_path / "certificates")
    context.load_cert_chain(certificates.path("server.pem"), certificates.path("server.key"))

    def a_broker_with_tls(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1024)

    with listening(a_broker_with_tls) as port:
        assert problem_at(port) == WANTS_TLS
        assert problem_at(port, with_tls=True) is None
    with listening(a_broker) as port:
        assert problem_at(port, with_tls=True) == NO_TLS


def test_a_proxy_that_goes_by_the_name_in_the_handshake_is_asked_with_it(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = Certificates(tmp_path / "certificates")
    context.load_cert_chain(certificates.path("server.pem"), certificates.path("server.key"))

    def end_without_a_name(wrapped: ssl.SSLSocket, name: str | None, _context: ssl.SSLContext) -> None:
        if name is None:
            wrapped.shutdown(socket.SHUT_RDWR)

    context.sni_callback = end_without_a_name  # type: ignore[assignment]

    def a_proxy(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1024)

    with listening(a_proxy) as port:
        assert problems_of([("localhost", port)], with_tls=True) is None


def test_of_a_names_addresses_those_that_are_silent_leave_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as opened:
        silent = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # nobody accepts, and more than these are not taken
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        port = opened.enter_context(listening(a_broker))
        ends = (silent.getsockname(), silent.getsockname(), ("127.0.0.1", port))
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", end) for end in ends]
        real = socket.getaddrinfo

        def look_up(host: str, *rest: Any, **options: Any) -> Any:
            return found if host == "brokers.example" else real(host, *rest, **options)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        assert problems_of([("brokers.example", 9092)], with_tls=False) is None


def test_nobody_and_no_such_name() -> None:
    assert problem_at(free_port()) == "Connection refused"
    for name in ("no-such-host.invalid", "no..name"):
        assert problems_of([(name, 9092)], with_tls=False) == [f"no address is known for the name {name}"]


def test_one_broker_is_enough_and_problems_keep_the_order_of_addresses() -> None:
    nobody = ("127.0.0.1", free_port())
    with listening(a_broker) as port, listening(an_end) as closing:
        assert problems_of([nobody, ("127.0.0.1", port)], with_tls=False) is None
        assert problems_of([nobody, ("127.0.0.1", closing)], with_tls=False) == ["Connection refused", CLOSES]


def test_first_bytes() -> None:
    assert problem_of_answer(ANSWER[:8]) is None
    assert problem_of_answer(b"HTTP/1.1") == AN_HTTP_SERVER
    assert problem_of_answer(b"\x15\x03\x01\x00\x02\x02\x46") == WANTS_TLS
    assert problem_of_answer(b"") == CLOSES
    assert problem_of_answer(b"\x00\x00\x00\x0a\x00\x00\x00\x07") == NO_KAFKA
