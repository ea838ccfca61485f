"""How much memory each flow of a worker may take for batches: equal parts of what the worker may take for all.

A flow that begins, by configuration or by REST, makes the parts of the others smaller at once: what they have in
hand beyond that is sent, and nothing more is fetched until then.
"""

from collections.abc import Hashable
from typing import Final

SHARE_BYTES_MIN: Final = 4 * 1024 * 1024
"""Less would make fetches too small; so many flows take more than what the worker may."""


class MemoryShares:
    """The memory of a worker.

    Args:
        total_bytes: for the batches of all flows.
    """

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._flows: set[Hashable] = set()

    @property
    def share_bytes(self) -> int:
        """How much one flow may take now."""
        return max(self._total_bytes // max(len(self._flows), 1), SHARE_BYTES_MIN)

    def join(self, flow: Hashable) -> None:
        """Count a flow that copies."""
        self._flows.add(flow)

    def leave(self, flow: Hashable) -> None:
        """Count it no more."""
        self._flows.discard(flow)
