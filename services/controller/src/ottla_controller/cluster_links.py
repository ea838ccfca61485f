"""What creating, changing and deleting links comes to. Pure.

A linked partition follows its source: its leader takes batches from there, leader epochs included, and none from
clients. What that means for topics is in `linked_topics.py` and `link_promotion.py`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ottla_core.cluster.controller_rpc.link_api import (
    UNLIMITED,
    LinkChange,
    NewLink,
)
from ottla_core.cluster.state.link_properties import follows_topic, link_properties, matches
from ottla_core.cluster.state.model import ClusterState, Link, Topic
from ottla_core.errors import (
    InvalidRequest,
    PolicyViolation,
    TopicAlreadyExists,
)
from ottla_core.topic_name import check_topic_name

LINKS_MAX = 100


class UnknownLink(InvalidRequest):
    """There is no link of that name."""


def is_linked(topic: Topic) -> bool:
    """Return whether a partition of a topic follows a source."""
    return any(partition.link is not None for partition in topic.partitions)


def find_link(name: str, state: ClusterState) -> Link:
    """Return a link.

    Raises:
        UnknownLink: there is none.
    """
    link = state.links.get(name)
    if link is None:
        raise UnknownLink(f"there is no link '{name}'")
    return link


def plan_link(new: NewLink, state: ClusterState) -> Link | None:
    """Return the link to write, or None if it is there already by this very request.

    Raises:
        InvalidRequest, InvalidTopic, PolicyViolation, TopicAlreadyExists: it is refused.
    """
    link = new.link
    existing = state.links.get(link.name)
    if existing is not None and existing.id == link.id:
        return None
    if existing is not None:
        raise PolicyViolation(f"link '{link.name}' exists already")
    if len(state.links) >= LINKS_MAX:
        raise PolicyViolation(f"a cluster may have at most {LINKS_MAX} links")
    check_topic_name(link.name)
    _check_link(link, state)
    matching = [name for name in new.matching_topics if follows_topic(link, name)]
    _check_overlap(link, matching, state)
    for back in new.source_links:
        if back.source_cluster_id == state.cluster_id and (
            set(back.topics) & set(link.topics) or any(matches(back.topics, name) for name in matching)
        ):
            raise PolicyViolation(
                f"links would form a cycle: link '{back.name}' of the source follows the same topics here"
            )
    present = [] if new.existing else [name for name in matching if name in state.topics]
    if present:
        others = f" and {len(present) - 1} others that match" if len(present) > 1 else ""
        raise TopicAlreadyExists(f"topic '{present[0]}'{others} exist here already; a linked topic must be new")
    return link


def plan_change(change: LinkChange, state: ClusterState) -> Link:
    """Return a link as it shall be.

    Raises:
        InvalidRequest, PolicyViolation: the change is refused.
    """
    link = find_link(change.name, state)
    settings = {**link.settings, **{name: value for name, value in change.settings.items() if value is not None}}
    for name, value in change.settings.items():
        if value is None:
            settings.pop(name, None)
    properties = {**link.properties, **change.properties}
    rate = link.bytes_per_second if change.bytes_per_second is None else change.bytes_per_second
    changed = replace(
        link,
        paused=link.paused if change.paused is None else change.paused,
        bytes_per_second=None if rate == UNLIMITED else rate,
        bootstrap_servers=change.bootstrap_servers or link.bootstrap_servers,
        topics=link.topics if change.topics is None else change.topics,
        groups=link.groups if change.groups is None else change.groups,
        settings=settings,
        properties={name: value for name, value in properties.items() if value is not None},
        promoted_topics=link.promoted_topics - set(change.forgotten_promotions),
    )
    _check_link(changed, state)
    if (changed.topics, changed.properties) != (link.topics, link.properties):
        _check_overlap(changed, [], state)
    return changed


def _check_overlap(link: Link, matching: Sequence[str], state: ClusterState) -> None:
    """See that no topic would follow two links.

    Args:
        link: as it shall be.
        matching: topics of its source that it follows, as far as they are known.
        state: the cluster that follows.

    Raises:
        PolicyViolation: another link follows such a topic or has one of the same patterns, or a topic that the link
            would follow is linked by another one.
    """
    for other in state.links.values():
        if other.id == link.id:
            continue
        linked = [topic.name for topic in topics_of(other, state) if is_linked(topic)]
        shared = [name for name in matching if follows_topic(other, name)]
        shared += sorted(name for name in linked if follows_topic(link, name))
        if shared or set(other.topics) & set(link.topics):
            what = f"topic '{shared[0]}'" if shared else f"the pattern '{min(set(other.topics) & set(link.topics))}'"
            raise PolicyViolation(f"links overlap: {what} belongs to link '{other.name}' already")


def plan_link_deletion(name: str, state: ClusterState) -> Link:
    """Return the link to forget.

    Raises:
        UnknownLink: there is none.
        PolicyViolation: topics follow it; they would stay read-only for ever.
    """
    link = find_link(name, state)
    linked = [topic.name for topic in topics_of(link, state) if is_linked(topic)]
    if linked:
        others = f" and {len(linked) - 1} other topics follow" if len(linked) > 1 else " follows"
        raise PolicyViolation(f"'{min(linked)}'{others} link '{name}'; promote or delete them first")
    return link


def topics_of(link: Link, state: ClusterState) -> Iterator[Topic]:
    """Yield the topics that follow a link, or did as far as they have not been promoted as a whole."""
    return (topic for topic in state.topics.values() if topic.origin and topic.origin.link_id == link.id)


def _check_link(link: Link, state: ClusterState) -> None:
    problems = [
        *(["no bootstrap servers"] if not link.bootstrap_servers else []),
        *(["no id of the source cluster"] if not link.source_cluster_id else []),
        *(
            [f"bytes per second: {link.bytes_per_second} is not above 0"]
            if link.bytes_per_second is not None and link.bytes_per_second <= 0
            else []
        ),
        *(problem for pattern in (*link.topics, *link.groups) if (problem := _problem_of(pattern))),
    ]
    try:
        link_properties(link.properties)
    except InvalidRequest as error:
        problems.append(error.message)
    if problems:
        raise InvalidRequest(f"link '{link.name}': {'; '.join(problems)}")
    if link.source_cluster_id == state.cluster_id:
        raise InvalidRequest(f"link '{link.name}' would link this cluster to itself")


def _problem_of(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"the pattern '{pattern}': {error}"
    return None
