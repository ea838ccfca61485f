"""Which partitions their preferred replica, the first one, does not lead, and what an election would change. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import ClusterView


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRow:
    """A partition that is not led by its preferred replica.

    Attributes:
        leader: who leads it now; None if nobody does.
        hindrance: why the preferred replica would not be elected, or None.
    """

    name: TopicPartition
    leader: int | None
    preferred: int
    hindrance: str | None


def elections(view: ClusterView) -> list[ElectionRow]:
    """Return the partitions that are not led by their preferred replica, in order."""
    return [
        ElectionRow(
            name=name,
            leader=each.leader,
            preferred=each.replicas[0],
            hindrance=_hindrance(each.replicas[0], view, each.in_sync),
        )
        for name, each in sorted(view.partitions.items())
        if each.replicas and each.leader != each.replicas[0]
    ]


def possible(rows: Sequence[ElectionRow]) -> list[ElectionRow]:
    """Return those that an election would change."""
    return [each for each in rows if each.hindrance is None]


def plan_digest(rows: Sequence[ElectionRow]) -> str:
    """Return what tells the elections that were shown from those that there would be now."""
    told = repr([(*each.name, each.leader, each.preferred) for each in possible(rows)])
    return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()


def _hindrance(preferred: int, view: ClusterView, in_sync: Sequence[int]) -> str | None:
    if preferred not in view.brokers:
        return f"broker {preferred} is not in service"
    return None if preferred in in_sync else f"broker {preferred} is not in sync"
