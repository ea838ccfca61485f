"""Transactions that have ended, as turns tell of them and as metrics count them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


class Ending(Enum):
    """How, and upon whose word, the end of a transaction was decided."""

    COMMIT = "commit"
    ABORT = "abort"
    FENCED = "fenced"
    """Aborted because another producer has begun with the same id."""
    TIMEOUT = "timeout"


@dataclass(slots=True)
class TransactionCounts:
    """Counts since the start of the process, of what is stored."""

    endings: Counter[str] = field(default_factory=Counter)

    def count(self, endings: Iterable[Ending]) -> None:
        """Count ends that are stored."""
        for ending in endings:
            self.endings[ending.value] += 1
