"""Rebalances, as turns tell of them and as metrics count them. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Rebalance(NamedTuple):
    """A rebalance that counts from this turn on; how long it took in milliseconds is known in classic groups only."""

    protocol: str
    took_ms: int | None


@dataclass(slots=True)
class RebalanceCounts:
    """Counts since the start of the process, of rebalances that are stored.

    Attributes:
        rebalances: by protocol: complete ones of classic groups, begun ones of consumer groups.
        rebalance_ms: time that those of classic groups took, from the first sign to the stored assignment.
    """

    rebalances: Counter[str] = field(default_factory=Counter)
    rebalance_ms: int = 0

    def count(self, rebalances: Iterable[Rebalance]) -> None:
        """Count rebalances that are stored."""
        for rebalance in rebalances:
            self.rebalances[rebalance.protocol] += 1
            self.rebalance_ms += rebalance.took_ms or 0
