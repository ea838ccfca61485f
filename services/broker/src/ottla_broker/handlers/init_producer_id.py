"""InitProducerId (key 22): an id for an idempotent producer.

A producer that already has an id and asks to raise its epoch (KIP-360) gets a new id instead, at epoch 0: without
transactions nothing ties a producer's name to its id, and every client accepts a new one.

Whatever keeps the controller from giving this broker a block passes by itself, and is nothing that clients know:
STALE_BROKER_EPOCH, while the broker registers anew, would end a producer for good. So they are told to ask again.
Source: Kafka's `RPCProducerIdManager`.
"""

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_core.errors import KafkaError

NONE = -1
CONTROLLER_TIMEOUT_SECONDS = 2.0
"""How long a refill of the block may hold up what the client has sent behind; it is told to ask again then."""

log = structlog.get_logger("producer-ids")


async def handle(broker: Broker, request: Request) -> Parts:
    """Take an id from this broker's block."""
    error, producer_id, epoch = ErrorCode.none, NONE, NONE
    if request.message.transactional_id is not None:
        # There are no transactions here; clients report this error instead of retrying.
        error = ErrorCode.invalid_request
    else:
        try:
            producer_id = await broker.producer_ids.take(CONTROLLER_TIMEOUT_SECONDS)
            epoch = 0
        except KafkaError as failed:
            log.debug("no producer ids; the client asks again", code=failed.code.name, reason=failed.message)
            error = ErrorCode.coordinator_load_in_progress
    return request.respond(
        InitProducerIdResponse(
            throttle_time=NO_THROTTLE,
            error_code=error,
            producer_id=ProducerId(producer_id),
            producer_epoch=i16(epoch),
        )
    )
