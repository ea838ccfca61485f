"""Who waits until every in-sync replica of a partition has what lies below an offset. Pure."""

import heapq
from collections.abc import Callable
from itertools import count

from ottla_broker.partition_context import ReplicationNotice
from ottla_core.errors import KafkaError


class ReplicationWaits:
    """The notices that are due, by offset; those of one offset in the order in which they came.

    A notice may add and remove others while it is called.
    """

    __slots__ = ("_numbers", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, ReplicationNotice]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: int, notify: ReplicationNotice) -> None:
        """Have `notify` called when everything below an offset is replicated."""
        heapq.heappush(self._waiting, (end_offset, next(self._numbers), notify))

    def remove(self, notify: ReplicationNotice) -> None:
        """Undo `add`."""
        self._waiting = [waiting for waiting in self._waiting if waiting[2] != notify]
        heapq.heapify(self._waiting)

    def release(self, high_watermark: int, outcome: Callable[[], KafkaError | None]) -> None:
        """Call the notices of what lies below the high watermark with the outcome."""
        while self._waiting and self._waiting[0][0] <= high_watermark:
            heapq.heappop(self._waiting)[2](outcome())

    def give_up(self, error: Callable[[], KafkaError]) -> None:
        """Call all notices with an error."""
        waiting, self._waiting = self._waiting, []
        for _, _, notify in waiting:
            notify(error())
