"""InitProducerId (key 22): an id for an idempotent producer, or what a transactional one needs to begin.

A transactional producer's request goes on to the coordinator of its transactional id, along with a producer id that
nobody has been given. The coordinator uses it if the name has none yet, or if the epochs of its producer id run out.

An idempotent producer that already has an id and asks to raise its epoch (KIP-360) gets a new id instead, at epoch 0:
nothing ties a producer's name to its id then, and every client accepts a new one.

Whatever keeps the controller from giving this broker a block passes by itself, and is nothing that clients know:
STALE_BROKER_EPOCH, while the broker registers anew, would end a producer for good. So they are told to ask again.
Source: Kafka's `RPCProducerIdManager`, `KafkaApis.handleInitProducerIdRequest`.
"""

from collections.abc import Awaitable

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from ottla_broker.broker import Broker, Request
from ottla_broker.group_requests import refusal, relay_transactional
from ottla_broker.groups.errors import CoordinatorLoadInProgress
from ottla_broker.groups.routing import check_transactions
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Answer
from ottla_core.errors import InvalidRequest, KafkaError

NONE = -1
CONTROLLER_TIMEOUT_SECONDS = 2.0
"""How long a refill of the block may hold up what the client has sent behind; it is told to ask again then."""

log = structlog.get_logger("producer-ids")


async def handle(broker: Broker, request: Request) -> Answer | Awaitable[Answer]:
    """Take an id from this broker's block, and give it to the client or to the coordinator of its transactions."""
    message = request.message
    transactional_id = message.transactional_id
    known = (getattr(message, "producer_id", NONE), getattr(message, "producer_epoch", NONE))
    try:
        if transactional_id is not None:
            check_transactions(broker.state)
        if known != (NONE, NONE) and NONE in known:
            raise InvalidRequest("a producer has both an id and an epoch, or neither")
        producer_id = await fresh_producer_id(broker)
    except KafkaError as error:
        return request.respond(refusal(request, message, error))
    if transactional_id is not None:
        return relay_transactional(broker, request, transactional_id, fresh_producer_id=producer_id)
    return request.respond(
        InitProducerIdResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            producer_id=ProducerId(producer_id),
            producer_epoch=i16(0),
        )
    )


async def fresh_producer_id(broker: Broker) -> int:
    """Return an id that nobody has been given.

    Raises:
        CoordinatorLoadInProgress: there is none now; the client asks again.
    """
    try:
        return await broker.producer_ids.take(CONTROLLER_TIMEOUT_SECONDS)
    except KafkaError as failed:
        log.debug("no producer ids; the client asks again", code=failed.code.name, reason=failed.message)
        raise CoordinatorLoadInProgress("there are no producer ids just now") from None
