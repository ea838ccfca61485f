"""Where replicas and leaders should be, so that brokers and racks bear equal shares with few moves. Pure.

`plan_balance` improves the placement that is there, step by step, and each step leaves in order what came before:

1. replicas leave brokers that are to have none,
2. partitions with more copies in one rack than need be get one elsewhere,
3. brokers with more replicas than others give some away, until no two differ by more than one where racks allow it,
4. brokers with fuller disks swap big replicas for small ones of others,
5. the order of replicas, whose first one is the preferred leader, is changed until leaders are even. No data moves.

Steps 3 and 5 look for a shortest path from a broker with more to one with at least two less, since where no replica
can go from the first to the last directly, others in between can pass one on.
"""

from collections import deque
from collections.abc import Mapping
from itertools import islice, pairwise
from typing import Protocol

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import Replicas
from ottla_operations.cluster.disk_balance import DiskGoal, even_out_disks
from ottla_operations.cluster.placement import Placement

CANDIDATES_MAX = 64
"""How many partitions are compared before one of them is moved."""


class NoRoom(ValueError):
    """A replica has to leave its broker and there is no other one for it.

    Attributes:
        partitions: those that it holds for.
        copies: the most copies that one of them has.
    """

    def __init__(self, partitions: list[TopicPartition], copies: int) -> None:
        super().__init__(f"no broker for replicas of {', '.join(str(each) for each in partitions)}")
        self.partitions = partitions
        self.copies = copies


def plan_balance(
    racks: Mapping[int, str | None],
    replicas: Mapping[TopicPartition, Replicas],
    sizes: Mapping[TopicPartition, int],
    *,
    disk_goal: DiskGoal | None = None,
) -> dict[TopicPartition, Replicas]:
    """Return the replicas of all partitions whose replicas should change.

    Args:
        racks: the brokers that take part, each with its rack. Replicas on other brokers stay there.
        replicas: all partitions' replicas.
        sizes: bytes that one copy takes; 0 for a partition that is not named.
        disk_goal: how even disks shall be.
    """
    placement = Placement(racks, replicas, sizes)
    _spread_over_racks(placement)
    _even_out(_ReplicaShares(placement))
    even_out_disks(placement, disk_goal or DiskGoal())
    _even_out(_LeaderShares(placement))
    return placement.changes(replicas)


def plan_departure(
    leaving: int,
    racks: Mapping[int, str | None],
    replicas: Mapping[TopicPartition, Replicas],
    sizes: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Replicas]:
    """Return the new replicas of all partitions that have one on a broker that shall have none.

    Each replica goes to the broker that has the fewest, of those in the rack that suits best; the partition's
    leader becomes the one of its other replicas that leads least. Other partitions stay as they are.

    Raises:
        NoRoom: some partitions have a copy on every broker that stays.
    """
    staying = {broker: rack for broker, rack in racks.items() if broker != leaving}
    placement = Placement(staying, replicas, sizes)
    moving = sorted(name for name, brokers in replicas.items() if leaving in brokers)
    stuck = [name for name in moving if not any(broker not in replicas[name] for broker in staying)]
    if stuck:
        raise NoRoom(stuck, max(len(replicas[name]) for name in stuck))
    for name in sorted(moving, key=lambda name: (-sizes.get(name, 0), name)):
        placement.move(name, leaving, _best_target(placement, name, leaving))
    for name in moving:
        if replicas[name][0] == leaving:
            remaining = [broker for broker in replicas[name] if broker in staying]
            leads_least = min(
                remaining or [placement.replicas[name][0]],
                key=lambda broker: (placement.leader_counts[broker], broker),
            )
            placement.lead(name, leads_least)
    return placement.changes(replicas)


def _best_target(placement: Placement, name: TopicPartition, source: int) -> int:
    """Return the broker that a replica goes to best."""
    return min(
        (broker for broker in placement.racks if broker not in placement.replicas[name]),
        key=lambda broker: (
            placement.crowding_change(name, source, broker),
            placement.replica_counts[broker],
            placement.topic_counts[name.topic, broker],
            placement.disk_bytes[broker],
            broker,
        ),
    )


def _spread_over_racks(placement: Placement) -> None:
    for name in sorted(placement.replicas):
        while (step := _uncrowding_move(placement, name)) is not None:
            placement.move(name, *step)


def _uncrowding_move(placement: Placement, name: TopicPartition) -> tuple[int, int] | None:
    """Return from where to where a replica can go so that fewer of them share a rack, if there is such a move."""
    sources = [broker for broker in placement.replicas[name] if broker in placement.racks]
    if len({placement.rack_of(broker) for broker in sources}) == len(sources):
        return None
    steps = [
        (source, target)
        for source in sources
        for target in placement.racks
        if target not in placement.replicas[name] and placement.crowding_change(name, source, target) < 0
    ]
    return min(
        steps,
        key=lambda step: (
            placement.crowding_change(name, *step),
            placement.replica_counts[step[1]] - placement.replica_counts[step[0]],
            step,
        ),
        default=None,
    )


class _Shares(Protocol):
    """Something that brokers have more or less of, and can hand on to each other."""

    counts: Mapping[int, int]

    def best(self, source: int, target: int) -> TopicPartition | None:
        """Return what the source had best hand on to the target, or None if there is nothing."""

    def hand_on(self, name: TopicPartition, source: int, target: int) -> None:
        """Do it."""


class _ReplicaShares:
    """Replicas, which go where racks allow."""

    def __init__(self, placement: Placement) -> None:
        self.counts: Mapping[int, int] = placement.replica_counts
        self._placement = placement

    def best(self, source: int, target: int) -> TopicPartition | None:
        """Return the replica of a topic that the source has most too much of, whose size evens out disks best."""
        placement = self._placement
        candidates = placement.movable(source, target)
        first = next(candidates, None)
        if first is None:
            return None
        of_topic = [first, *(name for name in islice(candidates, CANDIDATES_MAX) if name.topic == first.topic)]
        moves = max(1, (self.counts[source] - self.counts[target]) // 2)
        ideal_bytes = (placement.disk_bytes[source] - placement.disk_bytes[target]) / 2 / moves
        return min(
            of_topic,
            key=lambda name: (
                placement.crowding_change(name, source, target),
                abs(placement.size_of(name) - max(0, ideal_bytes)),
            ),
        )

    def hand_on(self, name: TopicPartition, source: int, target: int) -> None:
        """Move the replica."""
        self._placement.move(name, source, target)


class _LeaderShares:
    """Preferred leaders, which go to brokers that have a replica."""

    def __init__(self, placement: Placement) -> None:
        self.counts: Mapping[int, int] = placement.leader_counts
        self._placement = placement

    def best(self, source: int, target: int) -> TopicPartition | None:
        """Return a partition of the topic of which the source leads most compared to the target."""
        counts = self._placement.topic_leader_counts
        return min(
            islice(self._placement.leadable(source, target), CANDIDATES_MAX),
            key=lambda name: counts[name.topic, target] - counts[name.topic, source],
            default=None,
        )

    def hand_on(self, name: TopicPartition, source: int, target: int) -> None:
        """Put the target's replica first."""
        self._placement.lead(name, target)


def _even_out(shares: _Shares) -> None:
    """Hand on until no broker can pass one on, directly or through others, to one that has at least two less."""
    while (path := _path_downhill(shares)) is not None:
        for source, target in reversed(list(pairwise(path))):
            name = shares.best(source, target)
            if name is None:
                return  # an earlier step of a long path took away what this one needed; what is done is no worse
            shares.hand_on(name, source, target)


def _path_downhill(shares: _Shares) -> list[int] | None:
    counts = shares.counts
    uphill = sorted(counts, key=lambda broker: (-counts[broker], broker))
    for top in uphill:
        if counts[top] - min(counts.values()) < 2:
            return None
        previous: dict[int, int | None] = {top: None}
        waiting = deque([top])
        while waiting:
            source = waiting.popleft()
            for target in reversed(uphill):
                if target in previous or shares.best(source, target) is None:
                    continue
                previous[target] = source
                if counts[top] - counts[target] >= 2:
                    return _path_to(target, previous)
                waiting.append(target)
    return None


def _path_to(end: int, previous: Mapping[int, int | None]) -> list[int]:
    path = [end]
    while (before := previous[path[-1]]) is not None:
        path.append(before)
    return path[::-1]
