"""UnregisterBroker (key 64): forget a broker that has left for good (KIP-500)."""

from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_core.errors import KafkaError


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller forget the broker."""
    error, message = ErrorCode.none, None
    try:
        await broker.controller.unregister_broker(
            request.newest().broker_id, timeout_s=broker.config.request_timeout_ms / 1000
        )
    except KafkaError as refused:
        error, message = refused.code, refused.message
    return request.respond(
        UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=error, error_message=message)
    )
