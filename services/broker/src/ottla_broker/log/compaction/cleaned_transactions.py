"""What a round of compaction knows of transactions: which batches were aborted, and which markers may go. Pure.

All that a round looks at is decided, since it ends before the last stable offset. A batch of an aborted transaction
goes at once. A marker stays as long as a round has met a batch of its transaction, even one that has just been
removed or stays without records: whoever reads the log from the disk would otherwise take the transaction for an
open one. It goes `delete.retention.ms` after the first round that met none (KIP-534), as a reader may be on its way
between the two. With the last batch of an aborted transaction its entry in the transaction index goes, too.

A round walks the log from its beginning and in its order, so a commit's marker ends what it has met of its producer.
Aborts are told by the ranges in the indexes, which hold whatever else is missing. Source: Kafka's
CleanedTransactionMetadata.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ottla_core.wire.control_records import TransactionMarker
from ottla_core.wire.record_batch import TRANSACTIONAL_FLAG, RecordBatchHeader


class AbortedRange(NamedTuple):
    """An aborted transaction: an entry of a transaction index without its version.

    Attributes:
        producer_id: its producer.
        first_offset: its first record.
        last_offset: its marker.
        last_stable_offset: as stored.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CleanedTransactions:
    """The transactions of a round.

    Attributes:
        kept_aborts: the index entries to keep, as far as the round has come since they were taken last.
    """

    __slots__ = ("_aborted", "_met_aborted", "_met_others", "kept_aborts")

    def __init__(self, aborted: Iterable[AbortedRange]) -> None:
        """Begin a round, given all transactions that were aborted and may have records in what it looks at."""
        self._aborted: defaultdict[int, list[AbortedRange]] = defaultdict(list)
        for entry in sorted(aborted, key=lambda entry: entry.first_offset):
            self._aborted[entry.producer_id].append(entry)
        self._met_aborted: set[AbortedRange] = set()
        self._met_others: set[int] = set()
        self.kept_aborts: list[AbortedRange] = []

    def aborted(self, header: RecordBatchHeader) -> AbortedRange | None:
        """Return the aborted transaction that a batch belongs to, its marker included, or None."""
        if not self._aborted or not header.attributes & TRANSACTIONAL_FLAG:
            return None
        entries = self._aborted.get(header.producer_id)
        if not entries:
            return None
        number = bisect_right(entries, header.base_offset, key=lambda entry: entry.first_offset) - 1
        found = entries[number] if number >= 0 else None
        return found if found is not None and header.base_offset <= found.last_offset else None

    def meet_data(self, header: RecordBatchHeader) -> bool:
        """Take in the next batch of records; return whether they were aborted."""
        if not header.attributes & TRANSACTIONAL_FLAG:
            return False
        aborted = self.aborted(header)
        if aborted is None:
            self._met_others.add(header.producer_id)
            return False
        self._met_aborted.add(aborted)
        return True

    def meet_marker(self, header: RecordBatchHeader, marker: TransactionMarker | None) -> bool:
        """Take in the next control batch; return whether nothing of its transaction is left.

        Args:
            header: the batch's.
            marker: what it says; None if it has been left without its record, or is of another type.
        """
        if marker is None:
            return header.record_count == 0
        is_met = marker.producer_id in self._met_others
        self._met_others.discard(marker.producer_id)
        aborted = None if marker.is_commit else self.aborted(header)
        if aborted is not None and aborted in self._met_aborted:
            self._met_aborted.discard(aborted)
            self.kept_aborts.append(aborted)
            is_met = True
        return not is_met

    def take_kept_aborts(self) -> list[AbortedRange]:
        """Return the index entries of the segment that has just been gone through."""
        kept, self.kept_aborts = self.kept_aborts, []
        return kept
