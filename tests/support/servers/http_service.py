"""A web service of a test's own on a loopback port, which answers, and misbehaves, as the test says."""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is answered.

    Attributes:
        status: the status.
        body: bytes, or anything that JSON can say.
        headers: in order; a name may stand twice.
        hangs: whether the service is silent until the client goes away, instead.
        resets: whether the connection is reset instead.
        cut_after: after so many bytes of the body the connection is closed; None: it is not.
    """

    status: int = 200
    body: Any = b""
    headers: tuple[tuple[str, str], ...] = ()
    hangs: bool = False
    resets: bool = False
    cut_after: int | None = None


Respond = Callable[[Request], Reply]
RESET = Reply(resets=True)


@dataclass
class HttpService:
    """A context manager; `respond` may be replaced at any time, and `stop` and `start` keep the port.

    Attributes:
        respond: makes the reply to a request.
        requests: all that were received.
        tls: encrypts connections.
    """

    respond: Respond = field(default=lambda request: Reply())
    requests: list[Request] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    _server: "_Server | None" = None
    _port: int = 0

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self._port), _handler(self))
        self._port = self._server.server_address[1]
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.close_connections()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]):
        self._open: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """A stopped service answers nothing on connections that it had, either."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it was closed already

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: clients that go away are a part of the tests."""


def _handler(service: HttpService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            request = Request(
                method=self.command, path=parts.path, query=query, headers=dict(self.headers), body=body
            )
            service.requests.append(request)
            self.reply(service.respond(request))

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request  # noqa: N815 - http.server's names

        def reply(self, reply: Reply) -> None:
            if reply.hangs:
                self.connection.recv(1)
                self.close_connection = True
                return
            if reply.resets:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                self.connection.close()
                return
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if reply.cut_after is None else body[: reply.cut_after])
            if reply.cut_after is not None:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return Handler


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What a service needs to encrypt."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
