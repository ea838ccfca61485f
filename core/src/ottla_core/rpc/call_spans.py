"""Spans of unary gRPC calls, for the side that calls and the side that answers; installed only when traces are on.

The caller's span travels in the call's metadata as `traceparent` (W3C Trace Context), and the answering process's
span becomes its child. Names and attributes are those of OpenTelemetry's conventions for RPC. Streams have no spans:
a group relay or a watch lasts for days, and what flows in it comes from Kafka requests, which carry no context.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import Message
from grpc import aio
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context, use_span

from ottla_core.observe.tracing import Tracing

if TYPE_CHECKING:  # generic in the stubs only
    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = aio.ServicerContext[Any, Any]

HEALTH_SERVICE = "/grpc.health."
"""Health checks come every few seconds, and nobody looks for them."""
FAILURES_OF_SERVERS = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
"""Only these count as failures of whoever answers; OpenTelemetry's conventions say so."""


class _Metadata(Setter[aio.Metadata], Getter[aio.Metadata]):
    """How contexts are written into metadata of calls, and read."""

    def set(self, carrier: aio.Metadata, key: str, value: str) -> None:
        carrier[key] = value

    def get(self, carrier: aio.Metadata, key: str) -> list[str] | None:
        found = [str(value) for value in carrier.get_all(key)]
        return found or None

    def keys(self, carrier: aio.Metadata) -> list[str]:
        return [key for key, _ in carrier]


_METADATA = _Metadata()


class CallerSpans(aio.UnaryUnaryClientInterceptor):
    """Makes a span for every unary call of a channel.

    Args:
        tracing: makes the spans.
        address: HOST:PORT that the channel leads to.
    """

    def __init__(self, tracing: Tracing, address: str) -> None:
        self._tracing = tracing
        host, _, port = address.rpartition(":")
        self._server: dict[str, str | int] = {
            "server.address": host,
            "server.port": int(port) if port.isdecimal() else 0,
        }

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Make the call within a span that ends with its answer."""
        method = _method_name(client_call_details.method)
        span = self._tracing.tracer.start_span(
            method, kind=SpanKind.CLIENT, attributes={**_attributes(method), **self._server}
        )
        try:
            metadata = aio.Metadata(*(client_call_details.metadata or ()))
            self._tracing.propagator.inject(metadata, set_span_in_context(span), _METADATA)
            call = await continuation(client_call_details._replace(metadata=metadata), request)
            try:
                code = await call.code()
            except asyncio.CancelledError:
                call.cancel()  # nobody else has it yet
                raise
            _note(span, code, failed=code is not grpc.StatusCode.OK)
            return call
        finally:
            span.end()


class AnswererSpans(aio.ServerInterceptor):
    """Makes a span for every unary call that a server answers, but for health checks."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Awaitable[Handler | None]"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Put a span around what answers."""
        handler = await continuation(handler_call_details)
        path = handler_call_details.method
        if handler is None or handler.unary_unary is None or path.startswith(HEALTH_SERVICE):
            return handler
        metadata = aio.Metadata(*handler_call_details.invocation_metadata)
        return grpc.unary_unary_rpc_method_handler(
            self._traced(handler.unary_unary, _method_name(path), metadata),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _traced(
        self, behaviour: Any, method: str, metadata: aio.Metadata
    ) -> Callable[[Message, "Context"], Awaitable[Message]]:
        tracing = self._tracing

        async def traced(request: Message, context: "Context") -> Message:
            span = tracing.tracer.start_span(
                method,
                tracing.propagator.extract(metadata, getter=_METADATA),
                kind=SpanKind.SERVER,
                attributes=_attributes(method),
            )
            code = grpc.StatusCode.UNKNOWN
            # An error is no exception of the span: it travels as a status, which the attributes say.
            with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
                try:
                    response: Message = await behaviour(request, context)
                    code = grpc.StatusCode.OK
                except aio.AbortError:
                    code = _as_status(context.code())
                    raise
                except asyncio.CancelledError:
                    code = grpc.StatusCode.CANCELLED
                    raise
                finally:
                    _note(span, code, failed=code in FAILURES_OF_SERVERS)
            return response

        return traced


def _method_name(path: str | bytes) -> str:
    """Return ``package.Service/Method`` of a call's path."""
    return (path.decode() if isinstance(path, bytes) else path).lstrip("/")


def _attributes(method: str) -> dict[str, str]:
    return {"rpc.system.name": "grpc", "rpc.method": method}


def _as_status(code: Any) -> grpc.StatusCode:
    """Return a context's code, which grpc.aio keeps as a number or as a status."""
    if isinstance(code, grpc.StatusCode):
        return code
    return next((status for status in grpc.StatusCode if status.value[0] == code), grpc.StatusCode.UNKNOWN)


def _note(span: Span, code: grpc.StatusCode, *, failed: bool) -> None:
    span.set_attribute("rpc.response.status_code", code.name)
    if failed:
        span.set_attribute("error.type", code.name)
        span.set_status(Status(StatusCode.ERROR))
