"""What the handlers of coordinators' APIs have in common: a request goes to the owner of the group it names.

So do requests about transactions, by transactional id.

A request that names one group is passed on as the client sent it, and the coordinator's frame is written through as
it came. One that names several is passed on whole where one shard keeps them all, and otherwise in parts, one for
each shard, of which the answers are put together.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kio.static.protocol import Entity

from ottla_broker.broker import Broker, Request
from ottla_broker.groups.errors import NotCoordinator, TransactionalIdRefused
from ottla_broker.groups.relay import answer_or_raise
from ottla_broker.groups.routing import shard_for, transaction_shard_for
from ottla_broker.groups.split_requests import GroupLists, merge, split
from ottla_broker.groups.topic_rights import RelayedClient
from ottla_broker.outcome import Answer, Outcome, Parts
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import InvalidRequest, KafkaError, MessageTooLarge
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.group_id import GroupMessage
from ottla_core.wire.group_responses import CONSUMER_GROUP_HEARTBEAT, error_response


def relay(broker: Broker, request: Request) -> Outcome:
    """Pass on a request that names one group, and answer what the group's coordinator answers."""
    try:
        shard = shard_for(broker.state, request.message.group_id)
    except NotCoordinator as error:
        return _refuse(request, error)
    return _relay_whole(broker, request, shard)


def relay_transactional(
    broker: Broker,
    request: Request,
    transactional_id: str,
    *,
    fresh_producer_id: int | None = None,
    on_answer: Callable[[bytes], None] | None = None,
) -> Answer | Awaitable[Answer]:
    """Pass on a request about a transactional id, and answer what its coordinator answers.

    Args:
        broker: this one.
        request: what is passed on.
        transactional_id: the one that it is about.
        fresh_producer_id: one that nobody has been given, if the coordinator may need it.
        on_answer: called with the coordinator's answer before the client gets it.
    """
    try:
        shard = transaction_shard_for(broker.state, transactional_id)
    except (NotCoordinator, TransactionalIdRefused) as error:
        return _refuse(request, error)
    return _relay_whole(broker, request, shard, fresh_producer_id, on_answer)


def relay_several(
    broker: Broker,
    request: Request,
    lists: GroupLists,
    shard_of: Callable[[ClusterState, str], TopicPartition] = shard_for,
) -> Outcome:
    """Pass on a request that names several groups or transactional ids, to as many coordinators as keep them."""
    try:
        parts = split(request.message, lists, lambda name: shard_of(broker.state, name))
    except (NotCoordinator, TransactionalIdRefused) as error:
        return request.respond(refusal(request, request.message, error))
    if len(parts) == 1:
        (shard,) = parts
        return _relay_whole(broker, request, shard)
    return _relay_parts(broker, request, lists, parts)


def _relay_whole(
    broker: Broker,
    request: Request,
    shard: TopicPartition,
    fresh_producer_id: int | None = None,
    on_answer: Callable[[bytes], None] | None = None,
) -> Answer | Awaitable[Answer]:
    try:
        finish = functools.partial(_respond, request, on_answer)
        return broker.groups.ask(
            shard,
            request.frame,
            client_host(request),
            finish,
            client=_client(broker, request),
            fresh_producer_id=fresh_producer_id,
        )
    except (NotCoordinator, MessageTooLarge) as error:
        return _refuse(request, error)


def _client(broker: Broker, request: Request) -> RelayedClient | None:
    """Return who the client is, of the one request of which the coordinator has to know it."""
    authorization = broker.authorization
    if request.header.api_key != CONSUMER_GROUP_HEARTBEAT or authorization.is_super_user(request.principal):
        return None
    return RelayedClient(request.principal, authorization.rights_version)


def _refuse(request: Request, error: KafkaError) -> Parts:
    """Refuse a request of which only the group's id may have been read; its refusal may have to name all it asks for.

    Raises:
        InvalidRequest: the rest is malformed.
    """
    message = request.message
    if isinstance(message, GroupMessage):
        message = request.codec.read_request(memoryview(request.frame), request.header)
    return request.respond(refusal(request, message, error))


def _respond(request: Request, on_answer: Callable[[bytes], None] | None, answer: bytes | NotCoordinator) -> Parts:
    if isinstance(answer, NotCoordinator):
        return _refuse(request, answer)
    if on_answer is not None:
        on_answer(accepted(answer))
    return [accepted(answer)]


async def _relay_parts(
    broker: Broker, request: Request, lists: GroupLists, parts: Mapping[TopicPartition, Entity]
) -> Parts:
    answers = await asyncio.gather(*(_ask_for_part(broker, request, shard, part) for shard, part in parts.items()))
    return request.respond(merge(request.message, lists, request.codec.response_type, answers))


async def _ask_for_part(broker: Broker, request: Request, shard: TopicPartition, part: Entity) -> Any:
    """Return the response to a part of the request; one that could not be had refuses that part only."""
    frame = request.codec.encode_request(request.header, part)
    try:
        answer = await broker.groups.ask(shard, frame, client_host(request), answer_or_raise)
    except (NotCoordinator, MessageTooLarge) as error:
        return refusal(request, part, error)
    return request.codec.read_response(accepted(answer))


def accepted(answer: bytes) -> bytes:
    """Return a coordinator's answer.

    Raises:
        InvalidRequest: it is empty, which says that the coordinator cannot read the request.
    """
    if not answer:
        raise InvalidRequest("the group coordinator cannot make anything of the request")
    return answer


def refusal(request: Request, message: Entity, error: KafkaError) -> Entity:
    """Return the response that refuses a request, or that part of it which `message` is."""
    return error_response(request.header.api_key, request.version, message, error)


def client_host(request: Request) -> str:
    """Return where the client is, in the form that Kafka's tools show: the text of Java's InetAddress."""
    return f"/{request.connection.address}"
