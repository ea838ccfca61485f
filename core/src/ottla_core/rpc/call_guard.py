"""Refuses calls of processes that may not make them, before anything of the service sees them.

Who calls is read from the certificate that gRPC has verified, and the rules are `call_rules`. Messages of streams are
not looked at one by one: what a stream says of itself stands in the metadata of its call.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import grpc
import structlog
from grpc import aio

from ottla_core.rpc.call_rules import CallRefusal, CallRules, judge_call
from ottla_core.rpc.refusals import rpc_security
from ottla_core.rpc_identity import RpcNames

if TYPE_CHECKING:  # generic in the stubs only
    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = aio.ServicerContext[Any, Any]

DNS_NAMES: Final = "peer_dns"
"""gRPC's name for the DNS names among the subject alternative names of a verified certificate."""

log = structlog.get_logger("rpc")


class CallGuard(aio.ServerInterceptor):
    """Stands before every method of a server.

    Args:
        rules: of all methods that the server answers.
        names: how certificates name the cluster's processes.
    """

    def __init__(self, rules: CallRules, names: RpcNames) -> None:
        self._rules = rules
        self._names = names

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Awaitable[Handler | None]"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Put the guard before what answers."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        serializers = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(self._guarded(handler.unary_unary, method), **serializers)
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(self._guarded(handler.unary_stream, method), **serializers)
        if handler.stream_unary is not None:
            return grpc.stream_unary_rpc_method_handler(
                self._guarded(handler.stream_unary, method, is_stream=True), **serializers
            )
        return grpc.stream_stream_rpc_method_handler(
            self._guarded(handler.stream_stream, method, is_stream=True), **serializers
        )

    def _guarded(self, behaviour: Any, method: str, *, is_stream: bool = False) -> Any:
        async def guarded(request: Any, context: "Context") -> Any:
            await self._check(method, None if is_stream else request, context)
            return await behaviour(request, context)

        async def guarded_generator(request: Any, context: "Context") -> AsyncIterator[Any]:
            await self._check(method, None if is_stream else request, context)
            async for response in behaviour(request, context):
                yield response

        return guarded_generator if inspect.isasyncgenfunction(behaviour) else guarded

    async def _check(self, method: str, request: Any, context: "Context") -> None:
        refusal = self._refusal(method, request, context)
        if refusal is None:
            return
        rpc_security.refusals[refusal.reason] += 1
        log.warning("call refused", problem=refusal.message, peer=context.peer())
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, refusal.message)

    def _refusal(self, method: str, request: Any, context: "Context") -> CallRefusal | None:
        rule = self._rules.get(method)
        shown = context.auth_context().get(DNS_NAMES, ())
        names = [name.decode(errors="replace") for name in shown]

        def claimed() -> int | None:
            assert rule is not None
            assert rule.claimed_broker is not None
            return rule.claimed_broker(request, dict(context.invocation_metadata() or ()))

        return judge_call(method, rule, self._names.identities(names), names, claimed)
