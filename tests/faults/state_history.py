"""Whether the controllers' decisions about partitions contradict each other, judged by all that etcd ever held. Pure.

The cluster state must never go back: a leader epoch only grows, belongs to one leader, and the in-sync set stays
within the replicas. A deposed controller that still wrote would break this before any record is lost.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from ottla_core.cluster.state.model import NO_LEADER, PartitionState


class Version(NamedTuple):
    """What a partition's key held from a revision on."""

    revision: int
    state: PartitionState


def state_problems(versions: Iterable[Version]) -> Iterator[str]:
    """Contradictions between the versions of all partitions.

    Args:
        versions: all of them, in the order of their revisions.
    """
    by_partition: defaultdict[tuple[UUID, int], list[Version]] = defaultdict(list)
    for version in versions:
        by_partition[version.state.topic_id, version.state.index].append(version)
    for (topic_id, index), history in by_partition.items():
        yield from (f"partition {index} of {topic_id}: {problem}" for problem in _partition_problems(history))


def led_by_one(versions: Iterable[Version], topic_id: UUID) -> set[int]:
    """The partitions of a topic that had one leader in one leader epoch, from their creation on."""
    epochs: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
    for _, state in versions:
        if state.topic_id == topic_id:
            epochs[state.index].add((state.leader, state.leader_epoch))
    return {index for index, found in epochs.items() if len(found) == 1}


def _partition_problems(history: list[Version]) -> Iterator[str]:
    leaders: dict[int, int] = {}
    epoch = -1
    for revision, state in history:
        if state.leader_epoch < epoch:
            yield f"at revision {revision} the leader epoch went back from {epoch} to {state.leader_epoch}"
        epoch = max(epoch, state.leader_epoch)
        if state.leader != NO_LEADER:
            leader = leaders.setdefault(state.leader_epoch, state.leader)
            if leader != state.leader:
                yield f"leader epoch {state.leader_epoch} belongs to {leader} and, at {revision}, to {state.leader}"
            if state.leader not in state.isr:
                yield f"at revision {revision} leader {state.leader} is outside the in-sync set {state.isr}"
        if not set(state.isr) <= set(state.replicas):
            yield f"at revision {revision} the in-sync set {state.isr} is not within the replicas {state.replicas}"
