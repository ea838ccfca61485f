"""How much each broker of the source may answer, so that all answers under way fit into what is left of the buffer.

What one fetch may bring is set aside until it is answered. Each takes an equal part of what is left, among those that
have set nothing aside, so a fetch that waits for records keeps no other one from its part.
"""

from collections.abc import Hashable


class FetchBudget:
    """What is set aside for answers under way."""

    def __init__(self) -> None:
        self._reserved: dict[Hashable, int] = {}

    def reserve(self, fetcher: Hashable, *, free_bytes: int, bytes_max: int, fetchers: int) -> int:
        """Return how many bytes a fetch may bring, which are set aside for it; one at least.

        A broker answers with one batch at least, even where that is larger; so many brokers with large batches may
        take more than is left, by a batch each.

        Args:
            fetcher: who fetches, once at a time.
            free_bytes: of the buffer, not taken by batches.
            bytes_max: of one answer.
            fetchers: how many there are, this one included.
        """
        self._reserved.pop(fetcher, None)
        left = free_bytes - sum(self._reserved.values())
        share = left // max(fetchers - len(self._reserved), 1)
        reserved = self._reserved[fetcher] = max(min(share, bytes_max), 1)
        return reserved

    def release(self, fetcher: Hashable) -> None:
        """Set nothing aside any more: the answer is there, and its batches are counted, or it is given up."""
        self._reserved.pop(fetcher, None)
