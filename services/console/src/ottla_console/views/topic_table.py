"""The list of topics: a row for each, searched, filtered and sorted. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla_operations.activity.activity import Activity
from ottla_operations.cluster.cluster_view import ClusterView, PartitionView

INTERNAL: Final = "__"
ALL, ATTENTION, INTERNAL_ONLY = "", "attention", "internal"
FILTERS: Final[Mapping[str, str]] = {
    ALL: "All but internal",
    ATTENTION: "Needs attention",
    INTERNAL_ONLY: "Internal",
    "every": "All",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic.

    Attributes:
        replicas: of each partition; the most where they differ.
        records_per_s, log_bytes: None until they were looked at.
        under_replicated, offline: partitions without a copy in sync, and without a leader.
    """

    name: str
    partitions: int
    replicas: int
    records_per_s: float | None
    log_bytes: int | None
    under_replicated: int
    offline: int

    @property
    def is_internal(self) -> bool:
        """Whether it is one of Kafka's own."""
        return self.name.startswith(INTERNAL)

    @property
    def needs_attention(self) -> bool:
        """Whether a partition is not as it should be."""
        return bool(self.under_replicated or self.offline)


SORTS: Final[Mapping[str, Callable[[TopicRow], Any]]] = {
    "name": lambda row: row.name,
    "partitions": lambda row: row.partitions,
    "replicas": lambda row: row.replicas,
    "rate": lambda row: row.records_per_s or 0,
    "size": lambda row: row.log_bytes or 0,
    "state": lambda row: (row.offline, row.under_replicated),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQuery:
    """What of the topics is shown.

    Attributes:
        words: all of which a name has, whatever their case.
        shown: a key of `FILTERS`.
        sort: a key of `SORTS`, with ``-`` before it for the largest first.
    """

    words: str = ""
    shown: str = ALL
    sort: str = "name"

    @property
    def sort_key(self) -> str:
        """By what is sorted."""
        return self.sort.removeprefix("-") if self.sort.removeprefix("-") in SORTS else "name"

    @property
    def is_descending(self) -> bool:
        """Whether the largest come first."""
        return self.sort.startswith("-")

    def next_sort(self, key: str) -> str:
        """Return how a click on a column's head sorts: numbers the largest first, and a second click turns it."""
        if key != self.sort_key:
            return key if key == "name" else f"-{key}"
        return key if self.is_descending else f"-{key}"


def topic_rows(view: ClusterView, found: Activity | None) -> list[TopicRow]:
    """Return all topics."""
    by_topic: dict[str, list[PartitionView]] = {}
    for name, partition in view.partitions.items():
        by_topic.setdefault(name.topic, []).append(partition)
    seen = {} if found is None else {each.topic: each for each in found.topics}
    return [
        TopicRow(
            name=topic,
            partitions=len(partitions),
            replicas=max(len(each.replicas) for each in partitions),
            records_per_s=seen[topic].records_per_s if topic in seen else None,
            log_bytes=seen[topic].log_bytes if topic in seen else None,
            under_replicated=sum(each.leader is not None and each.is_under_replicated for each in partitions),
            offline=sum(each.leader is None for each in partitions),
        )
        for topic, partitions in by_topic.items()
    ]


def selected(rows: Sequence[TopicRow], query: TopicQuery) -> list[TopicRow]:
    """Return the rows that a query wants, in its order; equal ones by name."""
    words = query.words.lower().split()
    found = [row for row in rows if _is_shown(row, query.shown) and all(word in row.name.lower() for word in words)]
    found.sort(key=lambda row: row.name)
    found.sort(key=SORTS[query.sort_key], reverse=query.is_descending)
    return found


def _is_shown(row: TopicRow, shown: str) -> bool:
    if shown == ATTENTION:
        return row.needs_attention
    if shown == INTERNAL_ONLY:
        return row.is_internal
    return shown == "every" or not row.is_internal
