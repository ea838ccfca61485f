"""The gRPC server of a service: one listening address, the standard health service, errors translated.

`RpcServer.bind` comes first, so that the address is known to what the process registers and serves; then servicers
are added, `start` answers calls, and `set_serving(True)` makes the health service say SERVING. Under the name
`ottla.background` it says NOT_SERVING while a background task fails again and again.

With TLS, both sides show certificates, and every method has a rule that says which processes may call it.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import grpc
import structlog
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health

from ottla_core import health_names
from ottla_core.background import background, start_detached
from ottla_core.errors import KafkaError, OttlaError
from ottla_core.rpc.call_rules import HEALTH_RULES, CallRules
from ottla_core.rpc.dialing import message_size_options
from ottla_core.rpc.status import status_of

STOP_GRACE_S = 2.0
WHOLE_SERVER = ""
"""The health service's name for the server as a whole."""

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    # Two processes on one port would share its connections at random; the second must fail instead.
    ("grpc.so_reuseport", 0),
    # Clients ping idle channels every 10 s (see dialing.py); gRPC would take that for abuse.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    *message_size_options(),
)

log = structlog.get_logger("rpc")


class PortInUse(OttlaError):
    """The address to listen on is taken or is not this host's."""


class RpcServer:
    """A gRPC server; with `tracing` each unary call that it answers has a span.

    Args:
        tracing: makes spans.
        tls: what this process shows, and whom it accepts; None where processes speak without TLS.
        rules: who may call the methods that will be added.

    Attributes:
        server: what the generated `add_…Servicer_to_server` functions take.
    """

    def __init__(
        self, tracing: "Tracing | None" = None, *, tls: "RpcTls | None" = None, rules: CallRules | None = None
    ) -> None:
        self._tls = tls
        # Spans come first, so that they see the status that errors are translated to.
        interceptors = [*_span_interceptors(tracing), _ErrorTranslator(), *_guards(tls, rules or {})]
        self.server: aio.Server = aio.server(interceptors=interceptors, options=SERVER_OPTIONS)
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.server)

    def bind(self, host: str, port: int) -> int:
        """Take the address to listen on, and return the port; 0 lets the operating system choose one.

        Raises:
            PortInUse: the address cannot be bound.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._tls is None:
                bound = self.server.add_insecure_port(address)
            else:
                bound = self.server.add_secure_port(address, self._tls.server_credentials())
        except RuntimeError:
            bound = 0
        if bound == 0:
            raise PortInUse(f"cannot listen on {address}: the port is in use, or the address is not this host's")
        return bound

    async def start(self) -> None:
        """Begin to answer; the health service says NOT_SERVING until `set_serving`."""
        await self.set_serving(serving=False)
        for part in (health_names.LOGS, health_names.STORAGE, health_names.ACCESS_LISTS):
            await self.set_healthy(part, healthy=True)
        await self._tell_background()
        background().listeners.append(self._on_background_changed)
        await self.server.start()

    async def set_serving(self, *, serving: bool) -> None:
        """Tell the health service's callers whether this process is ready."""
        await self.set_healthy(WHOLE_SERVER, healthy=serving)

    async def set_healthy(self, part: str, *, healthy: bool) -> None:
        """Tell them how a part of this process is, by its name in `health_names`."""
        response = health_pb2.HealthCheckResponse
        await self._health.set(part, response.SERVING if healthy else response.NOT_SERVING)

    def _on_background_changed(self) -> None:
        start_detached("health", self._tell_background())

    async def _tell_background(self) -> None:
        await self.set_healthy(health_names.BACKGROUND, healthy=not background().failing)

    async def stop(self) -> None:
        """Refuse new calls, give running ones `STOP_GRACE_S` and stop."""
        with suppress(ValueError):  # a server that was never started
            background().listeners.remove(self._on_background_changed)
        await self._health.enter_graceful_shutdown()
        await self.server.stop(STOP_GRACE_S)


if TYPE_CHECKING:  # the first two are generic in the stubs only
    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = aio.ServicerContext[Any, Any]
    from ottla_core.observe.tracing import Tracing
    from ottla_core.rpc.tls import RpcTls


def _guards(tls: "RpcTls | None", rules: CallRules) -> Sequence[aio.ServerInterceptor]:
    if tls is None:
        return ()
    from ottla_core.rpc.call_guard import CallGuard  # noqa: PLC0415 - without TLS there is nobody to know

    return (CallGuard({**HEALTH_RULES, **rules}, tls.names),)


def _span_interceptors(tracing: "Tracing | None") -> Sequence[aio.ServerInterceptor]:
    if tracing is None:
        return ()
    from ottla_core.rpc.call_spans import AnswererSpans  # noqa: PLC0415 - imports OpenTelemetry

    return (AnswererSpans(tracing),)


Behaviour = Callable[[Any, "Context"], Awaitable[Any]]


class _ErrorTranslator(aio.ServerInterceptor):
    """Turns what a servicer raises into a gRPC status, in unary calls and in streams that the servicer writes to."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Awaitable[Handler | None]"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                _translating(handler.unary_unary, method),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        if handler.stream_stream is not None and iscoroutinefunction(handler.stream_stream):
            return grpc.stream_stream_rpc_method_handler(
                _translating(handler.stream_stream, method),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        return handler  # the health service's watches


def _translating(behaviour: Any, method: str) -> Behaviour:
    async def translated(request: Any, context: "Context") -> Any:
        try:
            response = await behaviour(request, context)
        except KafkaError as error:
            await _abort(context, error)
        except aio.AbortError:
            raise
        except Exception:
            log.exception("request failed unexpectedly", method=method)
            await _abort(context, KafkaError("the server failed unexpectedly; its log says why"))
        return response

    return translated


async def _abort(context: "Context", error: KafkaError) -> None:
    status, metadata = status_of(error)
    await context.abort(status, error.code.name, metadata)
