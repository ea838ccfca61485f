"""A link that is to be made: what the command line says of it, and what its source has."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from ottla.mirror.link_requests import ALL_GROUPS, link_property_settings, look_at, source_settings
from ottla.mirror.link_source import check_patterns
from ottla_core.cluster.state.model import Link

if TYPE_CHECKING:
    from ottla.mirror.link_source import LinkSource


def link_and_source(
    name: str,
    source: str,
    topics: Sequence[str],
    properties: Sequence[str] | None,
    *,
    groups: Sequence[str] = ALL_GROUPS,
    link_settings: Sequence[str] | None = None,
    bytes_per_second: int | None = None,
    replication_factor: int | None = None,
) -> "tuple[Link, LinkSource]":
    """Return a link as it is asked for, and what its source has.

    Args:
        name: of the link.
        source: HOST:PORT of the source's brokers, separated by commas.
        topics: patterns of the topics that follow.
        properties: KEY=VALUE of clients of the source.
        groups: patterns of the consumer groups whose offsets go along.
        link_settings: KEY=VALUE of the link's own properties.
        bytes_per_second: the most that each broker fetches.
        replication_factor: of topics that follow; None for the cluster's default.

    Raises:
        UsageProblem: a pattern or a setting cannot be used.
        OperationError: the source does not answer.
    """
    check_patterns(topics, "--topics")
    check_patterns(groups, "--groups")
    link = Link(
        name=name,
        id=uuid4(),
        source_cluster_id="",  # the source says it
        bootstrap_servers=tuple(each.strip() for each in source.split(",")),
        settings=source_settings(properties),
        topics=tuple(topics),
        groups=tuple(groups),
        bytes_per_second=bytes_per_second,
        properties=link_property_settings(link_settings),
    )
    found = look_at(link, replication_factor)
    return replace(link, source_cluster_id=found.cluster_id), found
