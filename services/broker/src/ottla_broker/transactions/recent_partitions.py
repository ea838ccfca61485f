"""Which partitions a producer's transactions have begun in lately: what its next one is likely to write to. Pure.

A client that sends each partition's batch in a request of its own waits for its coordinator's confirmation as often
as it has partitions, for its requests keep their order. Most transactions of a producer write to what the last one
has written to; so once one begins anew in a partition, the coordinator is asked about the others along with it.
"""

from collections import OrderedDict
from collections.abc import Collection
from typing import Final

from ottla_core.topic_partition import TopicPartition

PRODUCERS_MAX: Final = 10_000
"""Of so many producers it is remembered; those that have begun nothing for the longest time are forgotten."""

PARTITIONS_MAX: Final = 100
"""Of one producer."""


class RecentPartitions:
    """What is remembered of all producers."""

    def __init__(self) -> None:
        self._begun: OrderedDict[int, set[TopicPartition]] = OrderedDict()

    def begin(self, producer_id: int, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Note where a transaction begins; return the other partitions of the last one, if this is a next one."""
        begun = self._begun.get(producer_id)
        if begun is None:
            if len(self._begun) >= PRODUCERS_MAX:
                self._begun.popitem(last=False)
            begun = self._begun[producer_id] = set()
        else:
            self._begun.move_to_end(producer_id)
        if begun.isdisjoint(partitions):
            if len(begun) + len(partitions) <= PARTITIONS_MAX:
                begun.update(partitions)
            return ()
        self._begun[producer_id] = set(partitions) if len(partitions) <= PARTITIONS_MAX else set()
        return begun.difference(partitions)

    def go_on(self, producer_id: int, partition: TopicPartition) -> None:
        """Note another partition of the transaction that has begun last."""
        begun = self._begun.get(producer_id)
        if begun is not None and len(begun) < PARTITIONS_MAX:
            begun.add(partition)
