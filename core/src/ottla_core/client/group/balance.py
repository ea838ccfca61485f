"""Even shares: what to take from workers that have too much of one kind, and who gets what nobody has. Pure.

Source: `loadBalancingRevocations`, `assignConnectors` and `assignTasks` of IncrementalCooperativeAssignor in Kafka.
"""

import heapq
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...


Item = TypeVar("Item", bound=_Ordered)


def excess(held: Mapping[str, frozenset[Item]], total: int) -> dict[str, frozenset[Item]]:
    """Return what workers must give up, so that nobody has more than in an even distribution.

    Of the shares that are larger by one, those go first who have most, as the least moves then.

    Args:
        held: what each worker has; no item twice.
        total: how many items there are, including those that nobody has.
    """
    share, larger_shares = divmod(total, len(held))
    taken = {}
    for place, worker in enumerate(sorted(held, key=lambda each: (-len(held[each]), each))):
        keep = share + 1 if place < larger_shares else share
        if len(held[worker]) > keep:
            taken[worker] = frozenset(sorted(held[worker])[keep:])
    return taken


def spread(items: Iterable[Item], loads: Mapping[str, int]) -> dict[str, frozenset[Item]]:
    """Return who gets these items: one after another, who has least; among equals by name.

    Args:
        items: what to give away.
        loads: how many items each worker has already.
    """
    given: dict[str, set[Item]] = {worker: set() for worker in loads}
    by_load = [(load, worker) for worker, load in loads.items()]
    heapq.heapify(by_load)
    for item in sorted(items):
        load, worker = by_load[0]
        given[worker].add(item)
        heapq.heapreplace(by_load, (load + 1, worker))
    return {worker: frozenset(some) for worker, some in given.items()}
