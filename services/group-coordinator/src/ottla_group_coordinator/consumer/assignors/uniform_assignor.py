"""The ``uniform`` assignor: every member gets about equally many partitions, and as few as possible move.

Topics with the same subscribers are interchangeable for balance, so their partitions form a *pool*. In a group whose
members all have the same subscription there is just one. The new assignment is made in three steps:

1. Every member keeps what it has, as far as it still subscribes to it.
2. Partitions that nobody has go, one by one, to the subscriber that has the fewest.
3. Within a pool, partitions move from the member that has the most to the one that has the fewest until they differ
   by one at most. Members may subscribe to several pools, so this goes round the pools until nothing moves any more.

With one pool the result is balanced within one partition and no partition moves that need not: a member gives
only what it has above its share. With several pools no single move can improve the balance, as in Kafka's
`UniformHeterogeneousAssignmentBuilder`; chains of moves over several members are not looked for.
"""

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from ottla_group_coordinator.consumer.assignors.subscriber import Subscriber
from ottla_group_coordinator.consumer.partitions import Partitions

ROUNDS_MAX = 64
"""Step 3 ends after so many rounds. Every move makes loads more even, so it would end in any case."""

Partition = tuple[UUID, int]


class _Pool(NamedTuple):
    """Topics with the same subscribers; members are numbers, in the order of their ids."""

    topic_ids: list[UUID]
    members: list[int]
    partitions_of: dict[int, list[Partition]]


def assign_uniformly(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int], present: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """Return a balanced assignment close to the present one; see `Assignor`."""
    member_ids = sorted(subscribers)
    pools = _pools([subscribers[member_id].topic_ids for member_id in member_ids], partition_counts)
    loads = [0] * len(member_ids)
    unassigned = _keep([present.get(member_id, {}) for member_id in member_ids], pools, partition_counts, loads)
    for pool in pools:
        _hand_out(pool, [partition for topic_id in pool.topic_ids for partition in unassigned[topic_id]], loads)
    for _ in range(ROUNDS_MAX):
        if not any([_balance(pool, loads) for pool in pools]):  # noqa: C419 - every pool takes part in every round
            break
    return _collect(member_ids, pools)


def _pools(subscriptions: list[frozenset[UUID]], partition_counts: Mapping[UUID, int]) -> list[_Pool]:
    """Put topics with the same subscribers together, those with the most partitions per subscriber first."""
    members_by_subscription: dict[frozenset[UUID], list[int]] = {}
    for member, topic_ids in enumerate(subscriptions):
        members_by_subscription.setdefault(topic_ids, []).append(member)
    subscriptions_by_topic: dict[UUID, list[int]] = {}
    for number, topic_ids in enumerate(members_by_subscription):
        for topic_id in topic_ids:
            subscriptions_by_topic.setdefault(topic_id, []).append(number)
    topics_by_subscribers: dict[tuple[int, ...], list[UUID]] = {}
    for topic_id in sorted(subscriptions_by_topic):
        topics_by_subscribers.setdefault(tuple(subscriptions_by_topic[topic_id]), []).append(topic_id)
    members = list(members_by_subscription.values())
    pools = [
        _Pool(topic_ids, sorted(member for number in numbers for member in members[number]), {})
        for numbers, topic_ids in topics_by_subscribers.items()
    ]

    def urgency(pool: _Pool) -> tuple[float, int]:
        count = sum(partition_counts[topic_id] for topic_id in pool.topic_ids)
        return -count / len(pool.members), len(pool.members)

    return sorted(pools, key=urgency)


def _keep(
    present: list[Partitions], pools: list[_Pool], partition_counts: Mapping[UUID, int], loads: list[int]
) -> dict[UUID, list[Partition]]:
    """Leave members what they may keep; return what nobody has, by topic."""
    free = {topic_id: set(range(partition_counts[topic_id])) for pool in pools for topic_id in pool.topic_ids}
    for pool in pools:
        topic_ids = set(pool.topic_ids)
        for member in pool.members:
            kept = [
                (topic_id, index)
                for topic_id in sorted(topic_ids & present[member].keys())
                for index in sorted(present[member][topic_id] & free[topic_id])
            ]
            for topic_id, index in kept:
                free[topic_id].discard(index)
            if kept:
                pool.partitions_of[member] = kept
                loads[member] += len(kept)
    return {topic_id: [(topic_id, index) for index in sorted(indexes)] for topic_id, indexes in free.items()}


def _hand_out(pool: _Pool, partitions: Iterable[Partition], loads: list[int]) -> None:
    """Give each partition to the member of the pool that has the fewest."""
    fewest_first = [(loads[member], member) for member in pool.members]
    heapq.heapify(fewest_first)
    for partition in partitions:
        load, member = fewest_first[0]
        pool.partitions_of.setdefault(member, []).append(partition)
        loads[member] = load + 1
        heapq.heapreplace(fewest_first, (load + 1, member))


def _balance(pool: _Pool, loads: list[int]) -> bool:
    """Move partitions of the pool until its members' loads differ by one at most, or nothing more can be given.

    A member that has received need not give later: all others have at least what it had before, and only gain.
    """
    fewest_first = [(loads[member], member) for member in pool.members]
    most_first = [(-loads[member], member) for member, partitions in pool.partitions_of.items() if partitions]
    heapq.heapify(fewest_first)
    heapq.heapify(most_first)
    has_moved = False
    while most_first:
        load, receiver = fewest_first[0]
        if load != loads[receiver]:  # it has given in the meantime
            heapq.heapreplace(fewest_first, (loads[receiver], receiver))
            continue
        giver = most_first[0][1]
        if loads[giver] - load <= 1:
            break
        pool.partitions_of.setdefault(receiver, []).append(pool.partitions_of[giver].pop())
        loads[giver] -= 1
        loads[receiver] += 1
        heapq.heapreplace(fewest_first, (loads[receiver], receiver))
        if pool.partitions_of[giver]:
            heapq.heapreplace(most_first, (-loads[giver], giver))
        else:
            heapq.heappop(most_first)
        has_moved = True
    return has_moved


def _collect(member_ids: list[str], pools: list[_Pool]) -> dict[str, Partitions]:
    collected: list[dict[UUID, set[int]]] = [{} for _ in member_ids]
    for pool in pools:
        for member, partitions in pool.partitions_of.items():
            for topic_id, index in partitions:
                collected[member].setdefault(topic_id, set()).add(index)
    return {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in collected[member].items()}
        for member, member_id in enumerate(member_ids)
    }
