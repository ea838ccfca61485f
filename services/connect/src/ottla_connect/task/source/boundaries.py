"""Where the transactions of a source task end (Kafka's TransactionBoundaryManager, `transaction.boundary`). Pure.

- ``poll``: behind every batch that the task returns.
- ``interval``: when so much time has passed since the last end.
- ``connector``: where the task says, behind a batch or one of its records, as committed or as aborted.
"""

import enum
from collections.abc import Iterator, Sequence

from ottla_sdk import SourceRecord, TransactionContext


class Boundary(enum.StrEnum):
    """Values of `transaction.boundary`."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


class End(enum.Enum):
    """How a transaction ends."""

    NONE = enum.auto()
    """It does not, yet."""
    COMMIT = enum.auto()
    ABORT = enum.auto()


class RequestedEnds(TransactionContext):
    """What a task has said about the ends of its transactions; records are known as objects."""

    def __init__(self) -> None:
        self._batch = End.NONE
        self._records: dict[int, tuple[SourceRecord, End]] = {}

    def commit(self) -> None:
        """Commit a transaction behind the last record of the batch."""
        self._batch = End.COMMIT

    def commit_on(self, record: SourceRecord) -> None:
        """Commit a transaction behind this record."""
        self._records[id(record)] = (record, End.COMMIT)

    def abort(self) -> None:
        """Abort the transaction behind the last record of the batch."""
        self._batch = End.ABORT

    def abort_on(self, record: SourceRecord) -> None:
        """Abort the transaction behind this record."""
        self._records[id(record)] = (record, End.ABORT)

    def take_batch(self) -> End:
        """Return what was said about the batch, and forget it."""
        said, self._batch = self._batch, End.NONE
        return said

    def parts(self, records: Sequence[SourceRecord]) -> Iterator[tuple[Sequence[SourceRecord], End]]:
        """Divide records behind those about which something was said; it is forgotten."""
        first = 0
        if self._records:
            for number, record in enumerate(records):
                _, end = self._records.pop(id(record), (record, End.NONE))
                if end is not End.NONE:
                    yield records[first : number + 1], end
                    first = number + 1
        if first < len(records):
            yield records[first:], End.NONE


class Boundaries:
    """Decides where transactions end.

    Args:
        kind: by which rule.
        interval_s: for ``interval``, the time between two ends.
        now_s: the time, on any clock that `is_due` is asked by as well.

    Attributes:
        context: what a task says that ends its transactions itself; None for others.
    """

    def __init__(self, kind: Boundary, *, interval_s: float, now_s: float) -> None:
        self._kind = kind
        self._interval_s = interval_s
        self._last_s = now_s
        self.context = RequestedEnds() if kind is Boundary.CONNECTOR else None

    @property
    def ends_at_rest(self) -> bool:
        """Whether a transaction may be committed when the task pauses or stops, wherever it is."""
        return self._kind is not Boundary.CONNECTOR

    def is_due(self, now_s: float) -> bool:
        """Return whether the time has come to end a transaction, though no batch ends."""
        return self._kind is Boundary.INTERVAL and now_s >= self._last_s + self._interval_s

    def parts(self, records: Sequence[SourceRecord]) -> Iterator[tuple[Sequence[SourceRecord], End]]:
        """Divide a batch where transactions end within it; what is said about the whole comes after that."""
        if self.context is None:
            yield records, End.NONE
        else:
            yield from self.context.parts(records)

    def end_of_batch(self, now_s: float) -> End:
        """Return whether a transaction ends behind a batch."""
        if self._kind is Boundary.POLL:
            return End.COMMIT
        if self.context is not None:
            return self.context.take_batch()
        return End.COMMIT if self.is_due(now_s) else End.NONE

    def ended(self, now_s: float) -> None:
        """Take note that a transaction has ended."""
        self._last_s = now_s
