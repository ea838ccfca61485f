"""Deadlines as data: which timer is due is a question that takes the time as an argument. Pure.

A timer is named by a hashable value (a frozen dataclass such as "session of member m of group g"). Setting it again
moves it. The heap keeps entries that were moved or cancelled until they come up, and is rebuilt when they prevail.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

STALE_ENTRIES_MIN = 1024
"""The heap is not rebuilt for fewer stale entries than this."""

Name = TypeVar("Name", bound=Hashable)


class Timers(Generic[Name]):
    """The timers of one shard."""

    def __init__(self) -> None:
        self._deadlines: dict[Name, int] = {}
        self._heap: list[tuple[int, int, Name]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, name: Name) -> bool:
        return name in self._deadlines

    def set(self, name: Name, deadline_ms: int) -> None:
        """Let a timer be due at `deadline_ms`, whatever was set before."""
        if self._deadlines.get(name) == deadline_ms:
            return
        self._deadlines[name] = deadline_ms
        self._count += 1
        heapq.heappush(self._heap, (deadline_ms, self._count, name))
        if len(self._heap) > 2 * len(self._deadlines) + STALE_ENTRIES_MIN:
            self._heap = [entry for entry in self._heap if self._deadlines.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def cancel(self, name: Name) -> None:
        """Forget a timer; nothing happens if it is not set."""
        self._deadlines.pop(name, None)

    def deadline_ms(self, name: Name) -> int | None:
        """Return when a timer is due, or None if it is not set."""
        return self._deadlines.get(name)

    @property
    def next_deadline_ms(self) -> int | None:
        """When the next timer is due, or None if there is none."""
        heap = self._heap
        while heap and self._deadlines.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: float) -> Name | None:
        """Remove and return a timer that is due, the earliest first; None when there is no more."""
        deadline = self.next_deadline_ms
        if deadline is None or deadline > now_ms:
            return None
        name = heapq.heappop(self._heap)[2]
        del self._deadlines[name]
        return name
