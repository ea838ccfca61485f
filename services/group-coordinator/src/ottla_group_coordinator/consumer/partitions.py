"""Sets of partitions as values: which partitions of which topics, by topic id."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol
from uuid import UUID

from ottla_group_coordinator.records import TopicPartitions

Partitions = Mapping[UUID, frozenset[int]]
"""Partition indexes by topic id; a topic without partitions has no entry."""

NO_PARTITIONS: Partitions = MappingProxyType({})


def no_partitions() -> Partitions:
    """Return none."""
    return NO_PARTITIONS


class TopicEntry(Protocol):
    """An entry of an array of topics in a message or a record."""

    @property
    def topic_id(self) -> UUID | None:
        """The topic's id."""

    @property
    def partitions(self) -> tuple[int, ...]:
        """Partition indexes."""


def from_topics(topics: Iterable[TopicEntry]) -> Partitions:
    """Return what an array of topics in a message or a record says."""
    found: dict[UUID, frozenset[int]] = {}
    for topic in topics:
        if topic.topic_id is not None and topic.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return found


def to_topics(partitions: Partitions) -> tuple[TopicPartitions, ...]:
    """Return the partitions as an array of topics for a record, in order."""
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions[topic_id])))
        for topic_id in sorted(partitions)
    )


def union(first: Partitions, second: Partitions) -> Partitions:
    """Return the partitions that are in either."""
    if not second:
        return first
    return {
        topic_id: first.get(topic_id, frozenset()) | second.get(topic_id, frozenset())
        for topic_id in first.keys() | second.keys()
    }


def overlap(first: Partitions, second: Partitions) -> bool:
    """Return whether any partition is in both."""
    return any(not partitions.isdisjoint(second.get(topic_id, ())) for topic_id, partitions in first.items())


def contains(whole: Partitions, part: Partitions) -> bool:
    """Return whether all partitions of `part` are in `whole`."""
    return all(partitions <= whole.get(topic_id, frozenset()) for topic_id, partitions in part.items())
