"""EndTxn (key 26): commit or abort a transaction; its coordinator decides, and sees to its markers.

A producer whose epochs run out is given another id at the end of a transaction (KIP-890), so one that nobody has goes
along. Source: Kafka's `TransactionMetadata.isEpochExhausted`.
"""

from collections.abc import Awaitable
from typing import Final

from ottla_broker.broker import Broker, Request
from ottla_broker.group_requests import refusal, relay_transactional
from ottla_broker.handlers.init_producer_id import fresh_producer_id
from ottla_broker.outcome import Answer, Outcome
from ottla_core.errors import KafkaError

LAST_EPOCHS: Final = 32_765
"""From this epoch on the coordinator may need another id: 32,767 is never given, 32,766 fences."""


def handle(broker: Broker, request: Request) -> Outcome:
    """Pass the request on to the coordinator of its transactional id."""
    if request.message.producer_epoch >= LAST_EPOCHS:
        return _handle_with_fresh_id(broker, request)
    return relay_transactional(broker, request, request.message.transactional_id)


async def _handle_with_fresh_id(broker: Broker, request: Request) -> Answer | Awaitable[Answer]:
    try:
        producer_id = await fresh_producer_id(broker)
    except KafkaError as error:
        return request.respond(refusal(request, request.message, error))
    return relay_transactional(broker, request, request.message.transactional_id, fresh_producer_id=producer_id)
