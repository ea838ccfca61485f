"""How topics that a source writes to are created (KIP-158): `topic.creation.*` in its settings. Pure.

The first group of `topic.creation.groups` whose `include` matches a topic's whole name and whose `exclude` does not
decides; the group `default` takes all others. Without such settings the brokers create topics, if they do.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ottla_connect.task.pipeline.transform_chain import aliases, below
from ottla_sdk import Problem

PREFIX = "topic.creation."
GROUPS_KEY = f"{PREFIX}groups"
DEFAULT_GROUP = "default"
PARTITIONS = "partitions"
REPLICATION_FACTOR = "replication.factor"
INCLUDE = "include"
EXCLUDE = "exclude"
BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicPlan:
    """A topic that is to be created.

    Attributes:
        name: its name.
        partitions: how many; -1: the brokers' default.
        replication_factor: likewise.
        configs: its settings.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    include: Sequence[re.Pattern[str]]
    exclude: Sequence[re.Pattern[str]]
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def takes(self, topic: str) -> bool:
        return any(each.fullmatch(topic) for each in self.include) and not any(
            each.fullmatch(topic) for each in self.exclude
        )


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """The groups of a connector, in order; none if it does not create topics."""

    _groups: Sequence[_Group]

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "TopicCreation":
        """Return what settings say that have no `problems`."""
        if not any(key.startswith(PREFIX) for key in settings):
            return cls(())
        default = below(settings, f"{PREFIX}{DEFAULT_GROUP}.")
        groups = [_group(below(settings, f"{PREFIX}{each}."), default) for each in _names(settings)]
        return cls((*groups, _group({**default, INCLUDE: ".*"}, default)))

    def __bool__(self) -> bool:
        return bool(self._groups)

    def plan(self, topic: str) -> NewTopicPlan:
        """Return how a topic is to be created."""
        group = next(each for each in self._groups if each.takes(topic))
        return NewTopicPlan(
            name=topic,
            partitions=group.partitions,
            replication_factor=group.replication_factor,
            configs=group.configs,
        )


def problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """Return what is wrong with the `topic.creation.*` of a source's settings."""
    if not any(key.startswith(PREFIX) for key in settings):
        return
    names = [each.strip() for each in settings.get(GROUPS_KEY, "").split(",") if each.strip()]
    if len(names) > len(set(names)):
        yield Problem(GROUPS_KEY, "a group stands twice in it")
    for group in (DEFAULT_GROUP, *_names(settings)):
        prefix = f"{PREFIX}{group}."
        for key in (REPLICATION_FACTOR, PARTITIONS):
            text = settings.get(prefix + key)
            if text is None:
                if group == DEFAULT_GROUP:
                    yield Problem(prefix + key, "must be set where topics are created by topic.creation.* settings")
            elif not _is_count(text):
                yield Problem(
                    prefix + key, f"must be a positive number, or -1 for the brokers' default, not {text!r}"
                )
        for key in (INCLUDE, EXCLUDE):
            yield from _pattern_problems(prefix + key, settings.get(prefix + key, ""))
        if group != DEFAULT_GROUP and not settings.get(prefix + INCLUDE, "").strip():
            yield Problem(prefix + INCLUDE, "must be set, or no topic belongs to the group")


def _names(settings: Mapping[str, str]) -> list[str]:
    return [each for each in aliases(settings, GROUPS_KEY) if each != DEFAULT_GROUP]


def _group(own: Mapping[str, str], default: Mapping[str, str]) -> _Group:
    def count(key: str) -> int:
        return int(own.get(key, default.get(key, BROKER_DEFAULT)))

    def patterns(key: str) -> list[re.Pattern[str]]:
        return [re.compile(each) for each in aliases(own, key)]

    special = (PARTITIONS, REPLICATION_FACTOR, INCLUDE, EXCLUDE)
    return _Group(
        include=patterns(INCLUDE),
        exclude=patterns(EXCLUDE),
        partitions=count(PARTITIONS),
        replication_factor=count(REPLICATION_FACTOR),
        configs={key: value for key, value in own.items() if key not in special},
    )


def _is_count(text: str) -> bool:
    text = text.strip()
    return text == str(BROKER_DEFAULT) or (text.isdecimal() and int(text) > 0)


def _pattern_problems(key: str, text: str) -> Iterator[Problem]:
    for each in text.split(","):
        try:
            re.compile(each.strip())
        except re.error as error:
            yield Problem(key, f"{each.strip()!r} is no regular expression: {error}")
