"""What a link's source has: its id, the topics that patterns match, their settings, and links of its own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla_core.client.async_connection import AsyncConnection
from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.cluster_metadata import NO_TOPIC_ID, TopicMetadata
from ottla_core.client.errors import Unreachable
from ottla_core.client.links import ask_links, describe_links
from ottla_core.client.security import ClientSecurity
from ottla_core.client.topic_settings import topic_settings
from ottla_core.cluster.controller_rpc.link_api import NewLinkedTopic, SourceLink
from ottla_core.cluster.state.link_properties import follows_topic
from ottla_core.cluster.state.linked_topic_settings import followed_settings
from ottla_core.cluster.state.model import Link
from ottla_core.errors import ConfigurationError, KafkaError, OttlaError
from ottla_core.random_ids import random_uuid
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.kafka_access import CLIENT_ID, split_address

LINKS_WITHIN_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSource:
    """What the source has.

    Attributes:
        topics: those that the patterns match, ready to be followed.
        links: its own, if it is a cluster of Ottla.
    """

    cluster_id: str
    topics: tuple[NewLinkedTopic, ...]
    links: tuple[SourceLink, ...]


async def look_at_source(link: Link, settings: dict[str, str], replication_factor: int) -> LinkSource:
    """Ask a source cluster.

    Args:
        link: where it is, and which of its topics matter.
        settings: of connections to it, under librdkafka's names, without references.
        replication_factor: of topics that follow.

    Raises:
        OperationError: it does not answer, or has no topic ids.
    """
    addresses = [split_address(each.strip(), "--source") for each in link.bootstrap_servers]
    try:
        security = ClientSecurity.of(settings)
    except ConfigurationError as error:
        raise OperationError(f"the source cluster: {error}") from None
    cluster = AsyncCluster(addresses, security=security, client_id=CLIENT_ID)
    try:
        found = await cluster.metadata()
        names = sorted(name for name in found.topics if follows_topic(link, name))
        topics = await _followable(cluster, [found.topics[name] for name in names], replication_factor)
        links = await _links(addresses, security)
    except OttlaError as error:
        raise OperationError(f"the source cluster: {error}") from None
    finally:
        await cluster.close()
    return LinkSource(cluster_id=found.cluster_id, topics=topics, links=links)


async def _followable(
    cluster: AsyncCluster, topics: Sequence[TopicMetadata], replication_factor: int
) -> tuple[NewLinkedTopic, ...]:
    if without_id := [each.name for each in topics if each.id == NO_TOPIC_ID]:
        raise OperationError(f"the source cluster: {without_id[0]} has no topic id; links need Kafka 3.1 or later")
    configs = await topic_settings(cluster, [each.name for each in topics])
    return tuple(
        NewLinkedTopic(
            name=topic.name,
            topic_id=random_uuid(),
            source_topic=topic.name,
            source_topic_id=topic.id,
            source_leader_epochs=tuple(topic.partitions[index].leader_epoch for index in sorted(topic.partitions)),
            replication_factor=replication_factor,
            configs=dict(followed_settings(configs.get(topic.name, {}))),
        )
        for topic in topics
    )


async def _links(addresses: Sequence[tuple[str, int]], security: ClientSecurity) -> tuple[SourceLink, ...]:
    """Return the source's own links, by which circles are noticed; none if it is no cluster of Ottla."""
    for host, port in addresses:
        try:
            connection = await AsyncConnection.open(
                host, port, security=security, client_id=CLIENT_ID, timeout_s=LINKS_WITHIN_S
            )
        except Unreachable:
            continue
        try:
            found = await ask_links(connection, describe_links(), timeout_s=LINKS_WITHIN_S)
        except (Unreachable, KafkaError):
            return ()
        finally:
            connection.close()
        return tuple(
            SourceLink(name=each.link.name, source_cluster_id=each.link.source_cluster_id, topics=each.link.topics)
            for each in found.links
        )
    return ()


def check_patterns(patterns: Sequence[str], option: str) -> None:
    """See that patterns are regular expressions.

    Raises:
        UsageProblem: one is none.
    """
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageProblem(f"{option} {pattern}: {error}") from None
