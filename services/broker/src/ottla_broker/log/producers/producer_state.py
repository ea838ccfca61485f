"""What a log remembers of producers, so that retries are written once, gaps are noticed, and transactions end. Pure.

For every producer id the log keeps its epoch and its last five batches. A batch that repeats one of the five
is a retry whose answer was lost: it gets the original offsets. More than five may be on the way where the leader
has moved, as clients count them by connection. A batch before the five is surely in the log if its producer has
written without a gap since: the producer is told that it is, without an offset. (Kafka calls it out of order, upon
which Java's client tries again until its delivery timeout.) Any other batch has to continue the sequence.
A producer of which nothing is known may start with any sequence number, because its state may have expired or
been deleted along with its records. Source: Kafka's ProducerStateManager, ProducerStateEntry and
ProducerAppendInfo.

Of a transaction the log knows the first offset, from the first batch to the marker; `open_transactions.py` says up to
where readers of committed records may read. What a batch or a marker must fulfil is in `transaction_checks.py`.

A producer is forgotten when it has been silent for `producer.id.expiration.ms`, by the clock of this broker. Kafka
goes by the times of records alone. So a producer of old records, out of an archive or copied from elsewhere, would be
forgotten while it writes, or at the restart whose answers it waits for, and its retries would be written twice.

A check changes nothing; `record` or `end_transaction` is called once the batch has been written.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla_broker.log.producers.open_transactions import OpenTransactions
from ottla_core.errors import (
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequenceNumber,
)
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.control_records import PROMOTION_MARKER, TransactionMarker
from ottla_core.wire.record_batch import (
    INT32_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    RecordBatchHeader,
    decrement_sequence,
    increment_sequence,
)

RETAINED_BATCHES: Final = 5
"""Clients keep at most five requests in flight to a broker when they are idempotent."""
NO_TRANSACTION: Final = -1
"""What stands for the first offset where no transaction is open."""
UNBROKEN_RECORDS_MAX: Final = 2**30
"""Half of all sequence numbers: one further back could as well be one ahead."""


class EndedTransaction(NamedTuple):
    """A transaction with records in the log that has just been ended.

    Attributes:
        producer_id: its producer.
        first_offset: where it began.
        marker_offset: where it ended.
        last_stable_offset: the first offset that was undecided then.
        is_commit: whether its records count.
    """

    producer_id: int
    first_offset: int
    marker_offset: int
    last_stable_offset: int
    is_commit: bool


class ProducerBatch(NamedTuple):
    """What is remembered of one batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence number of the first record."""
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerEntry:
    """The state of one producer in one partition.

    Attributes:
        coordinator_epoch: the epoch of the transaction coordinator whose marker came last, or -1.
        current_transaction_first_offset: where its open transaction began, or `NO_TRANSACTION`.
        batches: the last ones under its epoch, of both kinds: those of a coordinator have no sequence.
        unbroken_records: how many records up to the last one the log has surely got in the order of their sequence
            numbers; not in snapshots, so it counts anew from there.
        written_ms: when its last batch was written here, or a later time; not in snapshots either, but see
            `producer_loading`.
        is_of_source: its open transaction is surely from before a promotion; not in snapshots either.
    """

    producer_id: int
    producer_epoch: int
    last_timestamp: int
    coordinator_epoch: int = -1
    current_transaction_first_offset: int = NO_TRANSACTION
    batches: deque[ProducerBatch] = field(default_factory=lambda: deque(maxlen=RETAINED_BATCHES))
    unbroken_records: int = 0
    written_ms: int = NO_TIMESTAMP
    is_of_source: bool = False

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last record, or -1."""
        return self.batches[-1].last_offset if self.batches else -1

    def has_batch_from(self, base_sequence: int) -> bool:
        """Return whether a retained batch begins with a sequence number."""
        return any(batch.first_sequence == base_sequence for batch in self.batches)

    def repeated_by(self, header: RecordBatchHeader) -> ProducerBatch | None:
        """Return the retained batch that a batch of this epoch repeats, or None."""
        base_sequence, last_sequence = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == base_sequence:
                return batch
        return None

    def go_on_under(self, producer_epoch: int) -> None:
        """Begin another epoch, if it is another one: the sequence begins anew."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()
            self.unbroken_records = 0

    def has_before_retained(self, header: RecordBatchHeader) -> bool:
        """Return whether a batch of this epoch is surely in the log, before the retained ones."""
        retained = decrement_sequence(self.last_sequence, self.batches[0].first_sequence) + 1
        behind_first = decrement_sequence(self.last_sequence, header.base_sequence)
        behind_last = decrement_sequence(self.last_sequence, header.last_sequence)
        return retained <= behind_last <= behind_first < self.unbroken_records


class ProducerStates:
    """The producers of one log.

    Attributes:
        topic_partition: for messages.
        transactions: those that are open, or ended and not replicated.
    """

    __slots__ = ("_entries", "topic_partition", "transactions")

    def __init__(self, topic_partition: TopicPartition, entries: Iterable[ProducerEntry] = ()) -> None:
        self.topic_partition = topic_partition
        self._entries = {entry.producer_id: entry for entry in entries}
        self.transactions = OpenTransactions(
            (entry.current_transaction_first_offset, entry.producer_id)
            for entry in self._entries.values()
            if entry.current_transaction_first_offset != NO_TRANSACTION
        )

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def clear(self, *, are_of_source: bool) -> None:
        """Forget all of them, but those with an open transaction: its records must not be shown undecided.

        They go with the markers by which a promotion ends these; see `abort_of_source`.

        Args:
            are_of_source: whether it is sure that they are those of a source, from before a promotion.
        """
        self._entries = {
            entry.producer_id: entry
            for entry in self._entries.values()
            if entry.current_transaction_first_offset != NO_TRANSACTION
        }
        for entry in self._entries.values():
            entry.is_of_source = are_of_source

    @property
    def highest_id(self) -> int:
        """The highest producer id, or -1."""
        return max(self._entries, default=-1)

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return the state of one producer, or None."""
        return self._entries.get(producer_id)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a producer has an open transaction under this epoch."""
        entry = self._entries.get(producer_id)
        return (
            entry is not None
            and entry.current_transaction_first_offset != NO_TRANSACTION
            and entry.producer_epoch == producer_epoch
        )

    def check(self, header: RecordBatchHeader) -> ProducerBatch | None:
        """Return the batch that this one repeats, or None if it may be appended.

        Raises:
            InvalidProducerEpoch: a newer instance of the producer has written here.
            OutOfOrderSequenceNumber: the batch does not continue the producer's sequence.
            DuplicateSequenceNumber: it is in the log, before the batches that are retained.
            InvalidTransactionState: it belongs to no transaction, while the producer has an open one.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        base_sequence = header.base_sequence
        if header.producer_epoch == entry.producer_epoch:
            expected = entry.last_sequence + 1
            if base_sequence == expected or (base_sequence == 0 and expected > INT32_MAX):
                if entry.current_transaction_first_offset >= 0:
                    self._check_within_transaction(header)
                return None
            batch = entry.repeated_by(header)
            if batch is not None:
                return batch
            if entry.batches and entry.has_before_retained(header):
                raise DuplicateSequenceNumber(
                    f"The batch of producer {header.producer_id} with sequence number {base_sequence} is in "
                    f"{self.topic_partition} already",
                    entry.batches[0].base_offset,
                )
            raise self._out_of_order(entry, base_sequence)
        self.check_epoch(header.producer_id, header.producer_epoch)
        if base_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
            raise self._out_of_order(entry, base_sequence)
        if entry.current_transaction_first_offset >= 0:
            self._check_within_transaction(header)
        return None

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """See that no later epoch of a producer has been seen.

        Raises:
            InvalidProducerEpoch: one has.
        """
        entry = self._entries.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {producer_id} in {self.topic_partition} is {producer_epoch},"
                f" which is smaller than the last seen epoch {entry.producer_epoch}"
            )

    def _check_within_transaction(self, header: RecordBatchHeader) -> None:
        if not header.attributes & TRANSACTIONAL_FLAG:
            raise InvalidTransactionState(
                f"Producer {header.producer_id} has an open transaction in {self.topic_partition},"
                " and the batch is not part of it"
            )

    def _out_of_order(self, entry: ProducerEntry, base_sequence: int) -> OutOfOrderSequenceNumber:
        return OutOfOrderSequenceNumber(
            f"Out of order sequence number for producer {entry.producer_id} in {self.topic_partition}:"
            f" {base_sequence} (incoming), {entry.last_sequence} (current end, epoch {entry.producer_epoch})"
        )

    def record(
        self, header: RecordBatchHeader, last_offset: int, timestamp: int, written_ms: int = NO_TIMESTAMP
    ) -> None:
        """Remember a batch that was written at `written_ms`, with the last offset and timestamp it was given."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = ProducerEntry(header.producer_id, header.producer_epoch, timestamp)
            self._entries[header.producer_id] = entry
        elif header.producer_epoch != entry.producer_epoch:
            entry.go_on_under(header.producer_epoch)
        elif header.base_sequence != increment_sequence(entry.last_sequence, 1):
            entry.unbroken_records = 0  # what is read anew may have gaps: what was compacted, or lost by a disk
        entry.unbroken_records = min(entry.unbroken_records + header.last_offset_delta + 1, UNBROKEN_RECORDS_MAX)
        entry.last_timestamp = timestamp
        entry.written_ms = written_ms
        entry.batches.append(ProducerBatch(header.last_sequence, last_offset, header.last_offset_delta, timestamp))
        if header.attributes & TRANSACTIONAL_FLAG and entry.current_transaction_first_offset < 0:
            entry.current_transaction_first_offset = last_offset - header.last_offset_delta
            self.transactions.begin(entry.current_transaction_first_offset, header.producer_id)

    def end_transaction(
        self, marker: TransactionMarker, marker_offset: int, timestamp: int, written_ms: int = NO_TIMESTAMP
    ) -> EndedTransaction | None:
        """Remember a marker that was written; return what it has ended, or None if no transaction was open here.

        One of a promotion takes its producer along, which is another cluster's.
        """
        if marker.coordinator_epoch == PROMOTION_MARKER:
            former = self._entries.pop(marker.producer_id, None)
            return None if former is None else self._ended(former, marker, marker_offset)
        entry = self._entries.get(marker.producer_id)
        if entry is None:
            entry = ProducerEntry(marker.producer_id, marker.producer_epoch, timestamp)
            self._entries[marker.producer_id] = entry
        entry.go_on_under(max(marker.producer_epoch, entry.producer_epoch))
        entry.coordinator_epoch = max(marker.coordinator_epoch, entry.coordinator_epoch)
        entry.last_timestamp = timestamp
        entry.written_ms = written_ms
        return self._ended(entry, marker, marker_offset)

    def _ended(self, entry: ProducerEntry, marker: TransactionMarker, marker_offset: int) -> EndedTransaction | None:
        first_offset = entry.current_transaction_first_offset
        if first_offset == NO_TRANSACTION:
            return None
        entry.current_transaction_first_offset, entry.is_of_source = NO_TRANSACTION, False
        last_stable_offset = self.transactions.end(first_offset, marker_offset)
        return EndedTransaction(marker.producer_id, first_offset, marker_offset, last_stable_offset, marker.is_commit)

    def replay(
        self, header: RecordBatchHeader, written_ms: int = NO_TIMESTAMP, marker: TransactionMarker | None = None
    ) -> EndedTransaction | None:
        """Take in a batch found in the log or received from a leader, which was checked there.

        Args:
            header: the batch's.
            written_ms: when it was written.
            marker: what it is, if it is a marker.

        Returns:
            The transaction that it has ended, if any.
        """
        if marker is not None:
            return self.end_transaction(marker, header.last_offset, header.max_timestamp, written_ms)
        entry = self._entries.get(header.producer_id)
        is_known = carries_sequence(header) or (header.is_transactional and header.producer_id != NO_PRODUCER_ID)
        if is_known and (entry is None or header.producer_epoch >= entry.producer_epoch):
            if header.is_control:
                self._replay_emptied_marker(header, written_ms)
            else:
                self.record(header, header.last_offset, header.max_timestamp, written_ms)
        return None

    def _replay_emptied_marker(self, header: RecordBatchHeader, written_ms: int) -> None:
        """Take in a marker that compaction has left without its record: it tells the producer's epoch alone."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = ProducerEntry(header.producer_id, header.producer_epoch, header.max_timestamp)
            self._entries[header.producer_id] = entry
        entry.go_on_under(header.producer_epoch)
        entry.last_timestamp = header.max_timestamp
        entry.written_ms = written_ms

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been silent for `expiration_ms`; return how many."""
        for entry in self._entries.values():
            entry.written_ms = min(entry.written_ms, now_ms)  # a clock that was ahead must not keep it for ever
        expired = [entry.producer_id for entry in self._entries.values() if is_expired(entry, now_ms, expiration_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)


def carries_sequence(header: RecordBatchHeader) -> bool:
    """Return whether a batch is part of an idempotent producer's sequence."""
    return header.producer_id != NO_PRODUCER_ID and not header.is_control and header.base_sequence != NO_SEQUENCE


def is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    """Return whether a producer may be forgotten: silent for long enough and in no transaction."""
    newest_ms = max(entry.last_timestamp, entry.written_ms)
    return entry.current_transaction_first_offset < 0 and now_ms - newest_ms >= expiration_ms
