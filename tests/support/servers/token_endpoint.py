"""A token endpoint on this machine: gives whoever asks a token, or refuses."""

import json
import threading
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tests.support.free_ports import LOOPBACK
from tests.support.servers.certificates import Certificates

POLL_S = 0.02
"""How long it may take to end."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: what it said of who asks, and its form."""

    authorization: str
    form: str


class TokenServer(ThreadingHTTPServer):
    """Tests change the `status`, the `body` and the `headers` of its answers; `asked` has the questions."""

    daemon_threads = False

    def __init__(self, certificates: Certificates | None = None) -> None:
        super().__init__((LOOPBACK, 0), Handler)
        self.asked: list[Asked] = []
        self.status = 200
        self.body = b""
        self.headers: dict[str, str] = {}
        scheme = "http"
        if certificates is not None:
            import ssl  # noqa: PLC0415

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates.path("server.pem"), certificates.path("server.key"))
            self.socket = context.wrap_socket(self.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://{LOOPBACK}:{self.server_port}/token"
        self._serving = threading.Thread(target=self.serve_forever, args=(POLL_S,))

    def gives(self, token: str, life_s: float = 300) -> None:
        """Answers with this token from now on."""
        self.status, self.body = 200, json.dumps({"access_token": token, "expires_in": life_s}).encode()

    def __enter__(self) -> Self:
        self._serving.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._serving.join()
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """Who does not trust it goes in the middle of the handshake."""


class Handler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append(Asked(self.headers["Authorization"], form))
        described = {"Content-Type": "application/json", "Content-Length": str(len(self.server.body))}
        with suppress(OSError):
            self.send_response(self.server.status)
            for name, value in {**described, **self.server.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        pass
