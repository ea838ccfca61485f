"""Links (key 20000, Ottla's own): what is asked about linked topics, forwarded to the controller or answered here."""

from dataclasses import replace
from typing import Any, Final

from google.protobuf.message import DecodeError, Message
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.links.link_settings import is_reference
from ottla_broker.outcome import Parts
from ottla_core.acls import CLUSTER_NAME, AclOperation, ResourceKind
from ottla_core.client.links import LinkStatus
from ottla_core.cluster.controller_rpc import link_messages as messages
from ottla_core.cluster.controller_rpc.link_api import DescribedLink, LinkedTopic
from ottla_core.cluster.state.model import ClusterState, Link
from ottla_core.errors import InvalidRequest, KafkaError
from ottla_core.wire.links_messages import LinksMethod, LinksResponse
from ottla_proto.gen.ottla import links_pb2 as pb
from ottla_sdk.kafka.secret_settings import is_secret_setting

HIDDEN: Final = "[hidden]"
_FORWARDED: Final[dict[LinksMethod, tuple[str, Any]]] = {
    LinksMethod.CREATE_LINK: ("CreateLink", pb.CreateLinkRequest),
    LinksMethod.ALTER_LINK: ("AlterLink", pb.AlterLinkRequest),
    LinksMethod.DELETE_LINK: ("DeleteLink", pb.DeleteLinkRequest),
    LinksMethod.CREATE_LINKED_TOPICS: ("CreateLinkedTopics", pb.CreateLinkedTopicsRequest),
    LinksMethod.ADD_LINKED_PARTITIONS: ("AddLinkedPartitions", pb.AddLinkedPartitionsRequest),
    LinksMethod.PROMOTE: ("PromoteLinked", pb.PromoteRequest),
}

_CHANGES: Final = frozenset({*_FORWARDED, LinksMethod.KEEP_LINKS, LinksMethod.OWN_KEEP_LINKS})


async def handle(broker: Broker, request: Request) -> Parts:
    """Answer a question, or have the controller make a change and wait until this broker knows of it."""
    error, message, body = ErrorCode.none, None, b""
    try:
        body = (await _answer(broker, request, request.message.body)).SerializeToString()
    except DecodeError:
        error, message = ErrorCode.invalid_request, "the body is no message of this method"
    except KafkaError as refused:
        error, message = refused.code, refused.message
    return request.respond(LinksResponse(error_code=error, error_message=message, body=body))


async def _answer(broker: Broker, request: Request, body: bytes) -> Message:
    """Answer; who changes links needs ALTER on the cluster, who looks at them DESCRIBE.

    Raises:
        KafkaError: the question is refused.
    """
    number = request.message.method
    try:
        method = LinksMethod(number)
    except ValueError:
        raise InvalidRequest(f"this broker knows no method {number} of links") from None
    operation = AclOperation.ALTER if method in _CHANGES else AclOperation.DESCRIBE
    broker.authorization.check(request, operation, ResourceKind.CLUSTER, CLUSTER_NAME)
    if method in _FORWARDED:
        return await _forward(broker, method, body)
    if method is LinksMethod.DESCRIBE_LINKS:
        return _describe(broker.state, pb.DescribeLinksRequest.FromString(body))
    names = tuple(pb.LinkStatusRequest.FromString(body).names)
    if method is LinksMethod.KEEP_LINKS:
        return _told(await broker.link_statuses.kept_now(names))
    if method is LinksMethod.OWN_KEEP_LINKS:
        return _told(await broker.link_statuses.own_kept_now(names))
    if method is LinksMethod.OWN_LINK_STATUS:
        return _told(broker.link_statuses.own(names))
    return _told(await broker.link_statuses.gathered(names))


def _told(status: LinkStatus) -> Message:
    return pb.LinkStatusResponse(
        partitions=messages.PARTITION_STATUS.to_messages(status.partitions),
        silent_brokers=status.silent_brokers,
        keepings=messages.LINK_KEEPING.to_messages(status.keepings),
    )


async def _forward(broker: Broker, method: LinksMethod, body: bytes) -> Message:
    name, message_type = _FORWARDED[method]
    timeout_s = broker.config.request_timeout_ms / 1000
    answer: Message = await broker.controller.forward(name, message_type.FromString(body), timeout_s=timeout_s)
    await broker.reconciler.wait_reached(broker.state.revision, timeout_s)
    if isinstance(answer, pb.CreateLinkResponse | pb.AlterLinkResponse):
        answer.link.CopyFrom(messages.LINK.to_message(_shown(messages.LINK.from_message(answer.link))))
    return answer


def _describe(state: ClusterState, request: pb.DescribeLinksRequest) -> Message:
    unknown = [name for name in request.names if name not in state.links]
    if unknown:
        raise InvalidRequest(f"there is no link '{unknown[0]}'")
    links = [state.links[name] for name in request.names or sorted(state.links)]
    return pb.DescribeLinksResponse(
        cluster_id=state.cluster_id,
        links=[
            messages.DESCRIBED_LINK.to_message(DescribedLink(link=_shown(link), topics=_topics_of(link, state)))
            for link in links
        ],
    )


def _shown(link: Link) -> Link:
    """Return a link without secrets that do not stand elsewhere."""
    settings = {
        name: HIDDEN if is_secret_setting(name) and not is_reference(value) else value
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
