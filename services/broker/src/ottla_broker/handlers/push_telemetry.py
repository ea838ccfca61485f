"""PushTelemetry (key 72): a client's metrics (KIP-714)."""

from kio.schema.errors import ErrorCode
from kio.schema.push_telemetry.v0.response import PushTelemetryResponse

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.get_telemetry_subscriptions import described_client
from ottla_broker.outcome import Outcome, Parts
from ottla_broker.telemetry.client_instances import Push
from ottla_core.errors import KafkaError
from ottla_core.kafka_uuid import ZERO_UUID


def handle(broker: Broker, request: Request) -> Outcome:
    """Take the metrics, if the client may push them now."""
    message = request.message
    push = Push(message.subscription_id, message.terminating, message.compression_type, len(message.metrics))
    return _take(broker, request, push, bytes(message.metrics))  # the frame's buffer is used again meanwhile


async def _take(broker: Broker, request: Request, push: Push, packed: bytes) -> Parts:
    instance_id = request.message.client_instance_id or ZERO_UUID
    error = ErrorCode.none
    try:
        await broker.telemetry.push(instance_id, described_client(request, instance_id), push, packed)
    except KafkaError as refused:
        error = refused.code
    return request.respond(PushTelemetryResponse(throttle_time=NO_THROTTLE, error_code=error))
