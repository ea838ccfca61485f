"""Links (key 20000, Ottla's own): what is asked about linked topics, forwarded to the controller or answered here.

The status of partitions is known to the brokers that lead them, so whoever is asked for all asks the others.
"""

import asyncio
from dataclasses import replace
from typing import Any, Final

from google.protobuf.message import DecodeError, Message
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.links.link_settings import is_reference
from ottla_broker.outcome import Parts
from ottla_core.client.async_connection import AsyncConnection
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.links import ask_links, link_status
from ottla_core.client.security import ClientSecurity
from ottla_core.cluster import link_messages as messages
from ottla_core.cluster.link_api import DescribedLink, LinkedPartitionState, LinkedTopic, PartitionStatus
from ottla_core.cluster.model import ClusterState, Link, Member
from ottla_core.errors import InvalidRequest, KafkaError
from ottla_core.wire.links_messages import LinksMethod, LinksResponse
from ottla_proto.gen.ottla import links_pb2 as pb

PEER_TIMEOUT_S: Final = 5.0
HIDDEN: Final = "[hidden]"
_SECRETS: Final = ("password", "secret", "key.pem")
_FORWARDED: Final[dict[LinksMethod, tuple[str, Any]]] = {
    LinksMethod.CREATE_LINK: ("CreateLink", pb.CreateLinkRequest),
    LinksMethod.ALTER_LINK: ("AlterLink", pb.AlterLinkRequest),
    LinksMethod.DELETE_LINK: ("DeleteLink", pb.DeleteLinkRequest),
    LinksMethod.CREATE_LINKED_TOPICS: ("CreateLinkedTopics", pb.CreateLinkedTopicsRequest),
    LinksMethod.ADD_LINKED_PARTITIONS: ("AddLinkedPartitions", pb.AddLinkedPartitionsRequest),
    LinksMethod.PROMOTE: ("PromoteLinked", pb.PromoteRequest),
}


async def handle(broker: Broker, request: Request) -> Parts:
    """Answer a question, or have the controller make a change and wait until this broker knows of it."""
    error, message, body = ErrorCode.none, None, b""
    try:
        body = (await _answer(broker, request.message.method, request.message.body)).SerializeToString()
    except DecodeError:
        error, message = ErrorCode.invalid_request, "the body is no message of this method"
    except KafkaError as refused:
        error, message = refused.code, refused.message
    return request.respond(LinksResponse(error_code=error, error_message=message, body=body))


async def _answer(broker: Broker, number: int, body: bytes) -> Message:
    try:
        method = LinksMethod(number)
    except ValueError:
        raise InvalidRequest(f"this broker knows no method {number} of links") from None
    if method in _FORWARDED:
        return await _forward(broker, method, body)
    if method is LinksMethod.DESCRIBE_LINKS:
        return _describe(broker.state, pb.DescribeLinksRequest.FromString(body))
    names = tuple(pb.LinkStatusRequest.FromString(body).names)
    own = broker.links.statuses(names)
    if method is LinksMethod.OWN_LINK_STATUS:
        return pb.LinkStatusResponse(partitions=[messages.status_to_message(each) for each in own])
    return await _status(broker, names, own)


async def _forward(broker: Broker, method: LinksMethod, body: bytes) -> Message:
    name, message_type = _FORWARDED[method]
    timeout_s = broker.config.request_timeout_ms / 1000
    answer: Message = await broker.controller.forward(name, message_type.FromString(body), timeout_s=timeout_s)
    await broker.reconciler.wait_reached(broker.state.revision, timeout_s)
    if isinstance(answer, pb.CreateLinkResponse | pb.AlterLinkResponse):
        answer.link.CopyFrom(messages.link_to_message(_shown(messages.link_from_message(answer.link))))
    return answer


def _describe(state: ClusterState, request: pb.DescribeLinksRequest) -> Message:
    unknown = [name for name in request.names if name not in state.links]
    if unknown:
        raise InvalidRequest(f"there is no link '{unknown[0]}'")
    links = [state.links[name] for name in request.names or sorted(state.links)]
    return pb.DescribeLinksResponse(
        cluster_id=state.cluster_id,
        links=[
            messages.described_to_message(DescribedLink(link=_shown(link), topics=_topics_of(link, state)))
            for link in links
        ],
    )


def _shown(link: Link) -> Link:
    """Return a link without secrets that do not stand elsewhere."""
    settings = {
        name: HIDDEN if any(part in name for part in _SECRETS) and not is_reference(value) else value
        for name, value in link.settings.items()
    }
    return replace(link, settings=settings)


def _topics_of(link: Link, state: ClusterState) -> tuple[LinkedTopic, ...]:
    return tuple(
        LinkedTopic(
            name=topic.name,
            topic_id=topic.id,
            source_topic=topic.origin.source_topic,
            source_topic_id=topic.origin.source_topic_id,
            partition_count=len(topic.partitions),
            linked_count=sum(partition.link is not None for partition in topic.partitions),
        )
        for topic in state.topics.values()
        if topic.origin is not None and topic.origin.link_id == link.id
    )


async def _status(broker: Broker, names: tuple[str, ...], own: list[PartitionStatus]) -> Message:
    """Ask the other brokers, and say of partitions of which nobody says anything that nobody leads them."""
    others = [member for member in broker.state.brokers.values() if member.id != broker.id]
    answers = await asyncio.gather(*(_ask(broker, member, names) for member in others))
    silent = [member.id for member, answer in zip(others, answers, strict=True) if answer is None]
    known = {(each.topic, each.index): each for answer in answers for each in answer or ()}
    known.update({(each.topic, each.index): each for each in own})
    for each in _unreported(broker.state, names):
        known.setdefault((each.topic, each.index), each)
    ordered = sorted(known.values(), key=lambda each: (each.link, each.topic, each.index))
    return pb.LinkStatusResponse(
        partitions=[messages.status_to_message(each) for each in ordered], silent_brokers=silent
    )


async def _ask(broker: Broker, member: Member, names: tuple[str, ...]) -> tuple[PartitionStatus, ...] | None:
    endpoint = broker.endpoint(member, broker.config.inter_broker_listener_name or broker.config.listeners[0].name)
    if endpoint is None:
        return None
    try:
        async with asyncio.timeout(PEER_TIMEOUT_S):
            connection = await AsyncConnection.open(
                endpoint.host, endpoint.port, security=ClientSecurity(), client_id=f"broker-{broker.id}-links"
            )
            try:
                question = link_status(names, of_this_broker=True)
                return (await ask_links(connection, question, timeout_s=PEER_TIMEOUT_S)).partitions
            finally:
                connection.close()
    except (Unreachable, AuthenticationFailed, UnsupportedByBroker, KafkaError, TimeoutError):
        return None


def _unreported(state: ClusterState, names: tuple[str, ...]) -> list[PartitionStatus]:
    by_id = {link.id: link.name for link in state.links.values() if not names or link.name in names}
    return [
        PartitionStatus(
            link=by_id[partition.link],
            topic=topic.name,
            index=partition.index,
            state=LinkedPartitionState.NO_LEADER,
            reason="nobody leads it here, or its leader does not answer",
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
        )
        for topic in state.topics.values()
        for partition in topic.partitions
        if partition.link in by_id
    ]
