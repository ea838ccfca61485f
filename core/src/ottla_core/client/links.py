"""Asking a cluster about links and linked topics, with an event loop and without.

A `Question` is a request with the way to read its answer, without I/O; `ask_links` and `ask_links_blocking` send it
to one broker, any of which will do. Who is refused gets a `KafkaError` with the broker's message.

Changes may be repeated when their answer was lost: what is created carries its id, and the rest has the same outcome
twice, but for a deletion, whose repetition finds no link.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kio.schema.errors import ErrorCode
from kio.static.primitive import i16

from ottla_core.client.async_connection import AsyncConnection
from ottla_core.client.blocking_connection import BlockingConnection
from ottla_core.cluster.controller_rpc import link_messages as messages
from ottla_core.cluster.controller_rpc.link_api import (
    DescribedLink,
    LinkChange,
    LinkedTopicResult,
    LinkKeeping,
    MorePartitions,
    NewLink,
    NewLinkedTopic,
    PartitionStatus,
    PromotedPartition,
)
from ottla_core.cluster.state.model import Link
from ottla_core.errors import CodedError
from ottla_core.wire.links_messages import LinksMethod, LinksRequest, LinksResponse
from ottla_proto.gen.ottla import links_pb2 as pb

ANSWER_TIMEOUT_S = 60.0

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Question(Generic[Answer]):
    """A request, and what reads the body of its answer."""

    request: LinksRequest
    read: Callable[[bytes], Answer]


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """The status of linked partitions, and how links are kept in step.

    Brokers that did not answer lead some of the partitions in the state NO_LEADER. Of a link that has no keeper at
    the moment, or one that did not answer, there is no keeping.
    """

    partitions: tuple[PartitionStatus, ...]
    silent_brokers: tuple[int, ...]
    keepings: tuple[LinkKeeping, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterLinks:
    """The links of a cluster."""

    cluster_id: str
    links: tuple[DescribedLink, ...]


def create_link(new: NewLink, *, validate_only: bool = False) -> Question[Link]:
    """Create a link."""
    message = messages.NEW_LINK.to_message(new)
    message.validate_only = validate_only
    return _question(
        LinksMethod.CREATE_LINK,
        message.SerializeToString(),
        lambda body: messages.LINK.from_message(pb.CreateLinkResponse.FromString(body).link),
    )


def alter_link(change: LinkChange) -> Question[Link]:
    """Change, pause, resume or throttle a link."""
    return _question(
        LinksMethod.ALTER_LINK,
        messages.LINK_CHANGE.to_message(change).SerializeToString(),
        lambda body: messages.LINK.from_message(pb.AlterLinkResponse.FromString(body).link),
    )


def delete_link(name: str) -> Question[None]:
    """Forget a link that no topic follows."""
    return _question(LinksMethod.DELETE_LINK, pb.DeleteLinkRequest(name=name).SerializeToString(), lambda _body: None)


def create_linked_topics(link: str, topics: Sequence[NewLinkedTopic]) -> Question[list[LinkedTopicResult]]:
    """Create topics that follow those of the source; one result per topic, in order."""
    message = pb.CreateLinkedTopicsRequest(link=link, topics=messages.NEW_LINKED_TOPIC.to_messages(topics))
    return _linked_topics(message)


def follow_existing_topics(link: str, topics: Sequence[NewLinkedTopic]) -> Question[list[LinkedTopicResult]]:
    """Have topics that exist follow those of the source, as the former source of a promoted topic does.

    What they have that the source does not is written to files of the brokers, and cut off. One result per topic.
    """
    message = pb.CreateLinkedTopicsRequest(
        link=link, topics=messages.NEW_LINKED_TOPIC.to_messages(topics), existing=True
    )
    return _linked_topics(message)


def _linked_topics(message: pb.CreateLinkedTopicsRequest) -> Question[list[LinkedTopicResult]]:
    return _question(
        LinksMethod.CREATE_LINKED_TOPICS,
        message.SerializeToString(),
        lambda body: messages.LINKED_TOPIC_RESULT.from_messages(
            pb.CreateLinkedTopicsResponse.FromString(body).topics
        ),
    )


def add_linked_partitions(topics: Sequence[MorePartitions]) -> Question[list[LinkedTopicResult]]:
    """Give linked topics the partitions that their sources have; one result per topic, in order."""
    message = pb.AddLinkedPartitionsRequest(topics=messages.MORE_PARTITIONS.to_messages(topics))
    return _question(
        LinksMethod.ADD_LINKED_PARTITIONS,
        message.SerializeToString(),
        lambda body: messages.LINKED_TOPIC_RESULT.from_messages(
            pb.AddLinkedPartitionsResponse.FromString(body).topics
        ),
    )


def promote(link: str, topics: Sequence[str] = ()) -> Question[list[PromotedPartition]]:
    """Have some linked topics, or all of a link, follow no longer and take writes."""
    return _question(
        LinksMethod.PROMOTE,
        pb.PromoteRequest(link=link, topics=topics).SerializeToString(),
        lambda body: messages.PROMOTED_PARTITION.from_messages(pb.PromoteResponse.FromString(body).partitions),
    )


def describe_links(names: Sequence[str] = ()) -> Question[ClusterLinks]:
    """Return some links, or all, with their topics; secrets among their settings are not shown."""

    def read(body: bytes) -> ClusterLinks:
        response = pb.DescribeLinksResponse.FromString(body)
        return ClusterLinks(response.cluster_id, tuple(messages.DESCRIBED_LINK.from_messages(response.links)))

    return _question(LinksMethod.DESCRIBE_LINKS, pb.DescribeLinksRequest(names=names).SerializeToString(), read)


def link_status(names: Sequence[str] = (), *, of_this_broker: bool = False) -> Question[LinkStatus]:
    """Return how far the partitions of some links, or of all, have come."""
    method = LinksMethod.OWN_LINK_STATUS if of_this_broker else LinksMethod.LINK_STATUS
    return _question(method, pb.LinkStatusRequest(names=names).SerializeToString(), _read_status)


def _read_status(body: bytes) -> LinkStatus:
    response = pb.LinkStatusResponse.FromString(body)
    return LinkStatus(
        tuple(messages.status_from_message(each) for each in response.partitions),
        tuple(response.silent_brokers),
        tuple(messages.keeping_from_message(each) for each in response.keepings),
    )


def keep_links(names: Sequence[str] = (), *, of_this_broker: bool = False) -> Question[LinkStatus]:
    """Have some links, or all, brought in step with their sources now; return how that went, without partitions."""
    method = LinksMethod.OWN_KEEP_LINKS if of_this_broker else LinksMethod.KEEP_LINKS
    return _question(method, pb.LinkStatusRequest(names=names).SerializeToString(), _read_status)


async def ask_links(
    connection: AsyncConnection, question: Question[Answer], *, timeout_s: float = ANSWER_TIMEOUT_S
) -> Answer:
    """Ask a broker.

    Raises:
        KafkaError: it refuses.
        Unreachable: there was no answer; it is no broker of Ottla's if it closed the connection.
    """
    return _answer(question, await connection.ask_exactly(question.request, timeout_s=timeout_s))


def ask_links_blocking(connection: BlockingConnection, question: Question[Answer]) -> Answer:
    """Ask a broker; see `ask_links`."""
    return _answer(question, connection.ask_exactly(question.request))


def _question(method: LinksMethod, body: bytes, read: Callable[[bytes], Answer]) -> Question[Answer]:
    return Question(LinksRequest(method=i16(method), body=body), read)


def _answer(question: Question[Answer], response: LinksResponse) -> Answer:
    if response.error_code is not ErrorCode.none:
        raise CodedError(response.error_code, response.error_message or "")
    return question.read(response.body)
