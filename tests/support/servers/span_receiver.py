"""A receiver of spans, by OTLP over HTTP, that keeps what it is sent."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.free_ports import LOOPBACK


class ReceivedSpan(NamedTuple):
    """A span, and the `service.name` of the process that made it."""

    service: str
    span: Span

    @property
    def attributes(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for each in self.span.attributes:
            kind = each.value.WhichOneof("value")
            found[each.key] = getattr(each.value, kind) if kind else None
        return found


class SpanReceiver:
    """Listens while it is entered.

    Attributes:
        headers: of the last request.
    """

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self._spans: list[ReceivedSpan] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.path == "/v1/traces", self.path
                receiver.headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self._spans += [ReceivedSpan(names["service.name"], span) for span in scope.spans]

    @property
    def spans(self) -> list[ReceivedSpan]:
        return list(self._spans)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
