"""A receiver of metrics, by OTLP over HTTP, that keeps what it is sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread


class Receiver(ThreadingHTTPServer):
    """A receiver of OTLP that keeps what it is told."""

    def __init__(self, port: int, status: int = 200, location: str = "") -> None:
        self.requests: Queue[tuple[str, dict[str, str], bytes]] = Queue()
        received, answered = self.requests, status

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.put((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(answered)
                if location:
                    self.send_header("Location", location)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", port), Handler)


@contextmanager
def receiving(port: int, status: int = 200, location: str = "") -> Iterator[Receiver]:
    server = Receiver(port, status, location)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
