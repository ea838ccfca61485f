"""What `ottla consume` prints of the records that it reads: which, and how.

A record whose key or value is not what its format says is printed all the same, with its bytes as text, and told at
the end, so that nothing is missing and nothing stops.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ottla.output import note, write_result
from ottla_operations.quantities import counted
from ottla_operations.records.record_filter import Matches, NotDecided
from ottla_operations.records.record_line import BadLine, Record

REASONS_MAX = 5
"""Different reasons that are kept and told."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a record becomes text.

    Attributes:
        write: with the formats that were asked for; it raises `BadLine`.
        write_plain: with bytes as text, which no bytes resist.
    """

    write: Callable[[Record], bytes]
    write_plain: Callable[[Record], bytes]


class RecordPrinter:
    """Prints records, and counts those that were not what they should be.

    Attributes:
        undecoded: how many had a key or a value that is not what its format says.
        undecided: how many were left out because a filter could not be evaluated.
    """

    def __init__(self, layout: Layout, filters: Sequence[Matches] = ()) -> None:
        self.undecoded = 0
        self.undecided = 0
        self._layout = layout
        self._filters = filters
        self._reasons: Counter[str] = Counter()

    def print(self, records: Iterable[Record], limit: int | None) -> tuple[int, int]:
        """Print the records that match.

        Args:
            records: the next ones.
            limit: how many are printed at most.

        Returns:
            How many were looked at, which is all unless the limit was reached, and how many were printed.

        Raises:
            ReaderGone: nobody reads standard output any more.
        """
        lines: list[bytes] = []
        looked_at = 0
        for record in records:
            if limit is not None and len(lines) >= limit:
                break
            looked_at += 1
            if all(self._matches(matches, record) for matches in self._filters):
                lines.append(self._line(record))
        if lines:
            write_result(b"".join(lines))
        return looked_at, len(lines)

    def tell(self) -> None:
        """Tell the person what was not as it should be."""
        if self.undecoded:
            note(f"ottla: {counted(self.undecoded, 'record')} could not be decoded and stand there as text")
        if self.undecided:
            note(f"ottla: {counted(self.undecided, 'record')} left out, as the filter could not be evaluated")
        for reason, _ in self._reasons.most_common(REASONS_MAX):
            note(f"ottla: for example {reason}")

    def _matches(self, matches: Matches, record: Record) -> bool:
        try:
            return matches(record)
        except NotDecided as problem:
            self.undecided += 1
            self._keep(record, f"the filter: {problem}")
            return False

    def _line(self, record: Record) -> bytes:
        try:
            return self._layout.write(record)
        except BadLine as problem:
            self.undecoded += 1
            self._keep(record, str(problem))
            return self._layout.write_plain(record)

    def _keep(self, record: Record, reason: str) -> None:
        if len(self._reasons) < REASONS_MAX:
            self._reasons[f"{record.topic}-{record.partition} at offset {record.offset}: {reason}"] += 1
