"""ListGroups (key 16): the groups that clients come to this broker for.

All coordinators are asked, as any of them may keep such groups. The list is whole or it is refused: tools ask again
upon COORDINATOR_NOT_AVAILABLE and COORDINATOR_LOAD_IN_PROGRESS, and would take anything else for all there is.
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
from ottla_core.slices import in_slices
from ottla_core.wire.conversion import message_of


async def handle(broker: Broker, request: Request) -> Parts:
    """Put the coordinators' lists together, and leave out the groups that another broker lists."""
    try:
        answers = await broker.groups.ask_all(request.frame, client_host(request))
    except NotCoordinator as error:
        return request.respond(refusal(request, request.message, CoordinatorNotAvailable(error.message)))
    except MessageTooLarge as error:
        return request.respond(refusal(request, request.message, error))
    lists: list[Any] = [await read_long(request.codec, accepted(answer)) for answer in answers]
    for refused in lists:
        if refused.error_code != ErrorCode.none:
            return request.respond(refused)
    brokers = broker.reachable_brokers(request.listener)
    listed = itertools.chain.from_iterable(each.groups for each in lists)
    owners = await in_slices((group, broker_for(group.group_id, brokers)) for group in listed)
    groups = tuple(group for group, owner in owners if owner == broker.id)
    if broker.authorization.is_on:
        groups = await _visible(broker, request, groups)
    response = message_of(request.codec.response_type, groups=groups)
    return await respond_in_thread(request, response, len(groups))


async def _visible(broker: Broker, request: Request, groups: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the groups that a client may see; who may see the cluster sees all."""
    authorization = broker.authorization
    if authorization.permits_on_cluster(request, AclOperation.DESCRIBE, is_listing=True):
        return groups

    def may_see(group: Any) -> bool:
        return authorization.permits(
            request, AclOperation.DESCRIBE, ResourceKind.GROUP, group.group_id, is_listing=True
        )

    seen = await in_slices((group, may_see(group)) for group in groups)
    return tuple(group for group, is_seen in seen if is_seen)
