"""How a link is kept in step with its source: its properties, what goes along, and which broker sees to it. Pure.

Properties have MirrorMaker 2's names. A link is kept by one broker of the cluster that follows, its *keeper*, which
is a function of the cluster state; so nobody is elected, and no process of its own is needed. Brokers that see
different states may both take themselves for it. The controller goes by its own state, and refuses one of them.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final
from uuid import UUID

from ottla_core.cluster.state.model import Link, Member
from ottla_core.errors import InvalidRequest

INTERNAL_TOPIC_PREFIX: Final = "__"
INTERVAL_S_MAX: Final = 24 * 60 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProperties:
    """The properties of a link; a field's name is the property's with `_` for `.`.

    Attributes:
        refresh_topics_enabled: whether new topics, new partitions and changed settings of the source come here.
        refresh_topics_interval_seconds: how often the source is asked about them.
        sync_topic_configs_enabled: whether settings of topics go along.
        sync_group_offsets_enabled: whether offsets of groups go along.
        sync_group_offsets_interval_seconds: how often the source is asked about them.
        topics_exclude: patterns of topics that are not linked although a pattern of the link matches them. Topics
            whose names begin with `__` never are.
        groups_exclude: patterns of groups that do not go along although a pattern of the link matches them.
    """

    refresh_topics_enabled: bool = True
    refresh_topics_interval_seconds: int = 30
    sync_topic_configs_enabled: bool = True
    sync_group_offsets_enabled: bool = True
    sync_group_offsets_interval_seconds: int = 10
    topics_exclude: tuple[str, ...] = (r".*[.-]internal", r".*\.replica", r"mm2-.*", r"(.*\.)?heartbeats")
    groups_exclude: tuple[str, ...] = ("console-consumer-.*", "__.*")


PROPERTY_NAMES: Final = {each.name.replace("_", "."): each.name for each in fields(LinkProperties)}
DEFAULTS: Final = LinkProperties()


def link_properties(written: Mapping[str, str]) -> LinkProperties:
    """Return the properties of a link.

    Raises:
        InvalidRequest: there are no such properties, or they cannot have their value; the message names all of them.
    """
    found: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in sorted(written.items()):
        attribute = PROPERTY_NAMES.get(name)
        if attribute is None:
            problems.append(f"{name} is no property of links; these are: {', '.join(sorted(PROPERTY_NAMES))}")
            continue
        try:
            found[attribute] = _READERS[type(getattr(DEFAULTS, attribute))](text.strip())
        except ValueError as error:
            problems.append(f"{name}={text}: {error}")
    if problems:
        raise InvalidRequest("; ".join(problems))
    return LinkProperties(**found)


def properties_of(link: Link) -> LinkProperties:
    """Return the properties of a link that was checked when it was written; defaults for what is not understood.

    A later version of Ottla may have written properties that this one does not know.
    """
    try:
        return link_properties(link.properties)
    except InvalidRequest:
        known = {}
        for name, text in link.properties.items():
            try:
                link_properties({name: text})
            except InvalidRequest:
                continue
            known[name] = text
        return link_properties(known)


def follows_topic(link: Link, name: str) -> bool:
    """Return whether a topic of the source is one of those that the link follows."""
    return (
        not name.startswith(INTERNAL_TOPIC_PREFIX)
        and matches(link.topics, name)
        and not matches(properties_of(link).topics_exclude, name)
    )


def follows_group(link: Link, group: str) -> bool:
    """Return whether the offsets of a group of the source go along with the link."""
    return matches(link.groups, group) and not matches(properties_of(link).groups_exclude, group)


def matches(patterns: Iterable[str], name: str) -> bool:
    """Return whether one of some regular expressions matches a whole name."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def keeper_of(link_id: UUID, brokers: Mapping[int, Member]) -> int | None:
    """Return the broker that keeps a link in step; None if there are no brokers.

    Links are spread over the brokers. One that is about to stop keeps none, unless there are no others.
    """
    staying = sorted(each.id for each in brokers.values() if not each.shutting_down) or sorted(brokers)
    return staying[link_id.int % len(staying)] if staying else None


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("write true or false")
    return text == "true"


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= INTERVAL_S_MAX:
        raise ValueError(f"write a whole number of seconds from 1 to {INTERVAL_S_MAX}")
    return int(text)


def _patterns(text: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in text.split(",") if each.strip())
    for pattern in found:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"the pattern '{pattern}': {error}") from None
    return found


_READERS: Final[Mapping[type, Callable[[str], Any]]] = {bool: _flag, int: _seconds, tuple: _patterns}
