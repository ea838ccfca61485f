"""ListTransactions (key 66): the transactional ids that clients come to this broker for (KIP-664).

All coordinators are asked, as any of them may keep such ids. The list is whole or it is refused. Tools ask every
broker, so each tells its own ids: those that FindCoordinator sends to it.
"""

import itertools
from typing import Any

from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.group_requests import accepted, client_host, refusal
from ottla_broker.groups.errors import CoordinatorNotAvailable, NotCoordinator
from ottla_broker.groups.routing import broker_for
from ottla_broker.long_responses import read_long, respond_in_thread
from ottla_broker.outcome import Parts
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.errors import MessageTooLarge
from ottla_core.shards import TRANSACTION_TOPIC
from ottla_core.slices import in_slices
from ottla_core.wire.conversion import message_of


async def handle(broker: Broker, request: Request) -> Parts:
    """Put the coordinators' lists together, and leave out what another broker lists or the client may not see."""
    if TRANSACTION_TOPIC not in broker.state.topics or not broker.state.features.has_transactions:
        return request.respond(message_of(request.codec.response_type))
    try:
        answers = await broker.groups.ask_all(request.frame, client_host(request), TRANSACTION_TOPIC)
    except NotCoordinator as error:
        return request.respond(refusal(request, request.message, CoordinatorNotAvailable(error.message)))
    except MessageTooLarge as error:
        return request.respond(refusal(request, request.message, error))
    lists: list[Any] = [await read_long(request.codec, accepted(answer)) for answer in answers]
    for refused in lists:
        if refused.error_code != ErrorCode.none:
            return request.respond(refused)
    brokers, authorization = broker.reachable_brokers(request.listener), broker.authorization

    def is_told(transactional_id: str) -> bool:
        return broker_for(transactional_id, brokers) == broker.id and authorization.permits(
            request, AclOperation.DESCRIBE, ResourceKind.TRANSACTIONAL_ID, transactional_id, is_listing=True
        )

    listed = itertools.chain.from_iterable(each.transaction_states for each in lists)
    judged = await in_slices((each, is_told(each.transactional_id)) for each in listed)
    states = tuple(each for each, tells in judged if tells)
    unknown = tuple(dict.fromkeys(name for each in lists for name in each.unknown_state_filters))
    response = message_of(request.codec.response_type, transaction_states=states, unknown_state_filters=unknown)
    return await respond_in_thread(request, response, len(states))
