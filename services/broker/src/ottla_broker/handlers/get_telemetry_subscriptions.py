"""GetTelemetrySubscriptions (key 71): which metrics a client is to push, and how often (KIP-714)."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.get_telemetry_subscriptions.v0.response import GetTelemetrySubscriptionsResponse
from kio.static.primitive import i8, i32, i32Timedelta

from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Connection
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_core.client_metrics_config import (
    CLIENT_ID,
    CLIENT_INSTANCE_ID,
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    SOURCE_ADDRESS,
    SOURCE_PORT,
)
from ottla_core.errors import KafkaError
from ottla_core.kafka_uuid import ZERO_UUID, uuid_text
from ottla_core.random_ids import random_uuid
from ottla_core.wire.compression import Codec

CODECS: Final = tuple(i8(codec) for codec in (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY))
"""In the order in which clients are to prefer them."""
TEXT_LENGTH_MAX: Final = 256
"""Of what a client says of itself, so much is kept and compared."""


def handle(broker: Broker, request: Request) -> Parts:
    """Answer with what all subscriptions that match the client ask of it."""
    instance_id = request.message.client_instance_id or random_uuid()
    try:
        instance = broker.telemetry.ask(instance_id, described_client(request, instance_id))
    except KafkaError as error:
        return request.respond(_response(error.code))
    return request.respond(
        _response(
            ErrorCode.none,
            instance_id=instance_id,
            subscription_id=instance.wanted.subscription_id,
            interval_ms=instance.wanted.interval_ms,
            size_bytes_max=broker.telemetry.size_bytes_max,
            prefixes=instance.wanted.prefixes,
        )
    )


def described_client(request: Request, instance_id: UUID) -> dict[str, str]:
    """Return what a client says of itself, by selector; what it does not say is missing."""
    connection: Connection = request.connection
    name, version = connection.client_software
    said = {
        CLIENT_INSTANCE_ID: uuid_text(instance_id),
        CLIENT_ID: request.header.client_id,
        SOFTWARE_NAME: name,
        SOFTWARE_VERSION: version,
        SOURCE_ADDRESS: connection.address,
        SOURCE_PORT: connection.peer.rpartition(":")[2],
    }
    return {selector: text[:TEXT_LENGTH_MAX] for selector, text in said.items() if text is not None}


def _response(
    error: ErrorCode,
    *,
    instance_id: UUID = ZERO_UUID,
    subscription_id: int = 0,
    interval_ms: int = 0,
    size_bytes_max: int = 0,
    prefixes: tuple[str, ...] = (),
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        client_instance_id=instance_id,
        subscription_id=i32(subscription_id),
        accepted_compression_types=CODECS if error is ErrorCode.none else (),
        push_interval=i32Timedelta.parse(timedelta(milliseconds=interval_ms)),
        telemetry_max_bytes=i32(size_bytes_max),
        delta_temporality=error is ErrorCode.none,
        requested_metrics=prefixes,
    )
