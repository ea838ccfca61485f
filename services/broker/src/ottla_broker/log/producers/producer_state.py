"""What a log remembers of idempotent producers, so that retries are written once and gaps are noticed. Pure.

For every producer id the log keeps its epoch and its last five batches. A batch that repeats one of the five
is a retry whose answer was lost: it gets the original offsets. More than five may be on the way where the leader
has moved, as clients count them by connection. A batch before the five is surely in the log if its producer has
written without a gap since: the producer is told that it is, without an offset. (Kafka calls it out of order, upon
which Java's client tries again until its delivery timeout.) Any other batch has to continue the sequence.
A producer of which nothing is known may start with any sequence number, because its state may have expired or
been deleted along with its records. Source: Kafka's ProducerStateManager, ProducerStateEntry and
ProducerAppendInfo.

A producer is forgotten when it has been silent for `producer.id.expiration.ms`, by the clock of this broker. Kafka
goes by the times of records alone. So a producer of old records, out of an archive or copied from elsewhere, would be
forgotten while it writes, or at the restart whose answers it waits for, and its retries would be written twice.

A check changes nothing; `record` is called once the batch has been written.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla_core.errors import DuplicateSequenceNumber, InvalidProducerEpoch, OutOfOrderSequenceNumber
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import (
    INT32_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RecordBatchHeader,
    decrement_sequence,
    increment_sequence,
)

RETAINED_BATCHES: Final = 5
"""Clients keep at most five requests in flight to a broker when they are idempotent."""
UNBROKEN_RECORDS_MAX: Final = 2**30
"""Half of all sequence numbers: one further back could as well be one ahead."""


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
        unbroken_records: how many records up to the last one the log has surely got in the order of their sequence
            numbers; not in snapshots, so it counts anew from there.
        written_ms: when its last batch was written here, or a later time; not in snapshots either, but see
            `producer_loading`.
    """

    producer_id: int
    producer_epoch: int
    last_timestamp: int
    coordinator_epoch: int = -1
    current_transaction_first_offset: int = -1
    batches: deque[ProducerBatch] = field(default_factory=lambda: deque(maxlen=RETAINED_BATCHES))
    unbroken_records: int = 0
    written_ms: int = NO_TIMESTAMP

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last record, or -1."""
        return self.batches[-1].last_offset if self.batches else -1

    def has_before_retained(self, header: RecordBatchHeader) -> bool:
        """Return whether a batch of this epoch is surely in the log, before the retained ones."""
        retained = decrement_sequence(self.last_sequence, self.batches[0].first_sequence) + 1
        behind_first = decrement_sequence(self.last_sequence, header.base_sequence)
        behind_last = decrement_sequence(self.last_sequence, header.last_sequence)
        return retained <= behind_last <= behind_first < self.unbroken_records


class ProducerStates:
    """The producers of one log; `topic_partition` is for messages."""

    __slots__ = ("_entries", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, entries: Iterable[ProducerEntry] = ()) -> None:
        self.topic_partition = topic_partition
        self._entries = {entry.producer_id: entry for entry in entries}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def clear(self) -> None:
        """Forget all of them."""
        self._entries.clear()

    @property
    def highest_id(self) -> int:
        """The highest producer id, or -1."""
        return max(self._entries, default=-1)

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return the state of one producer, or None."""
        return self._entries.get(producer_id)

    def check(self, header: RecordBatchHeader) -> ProducerBatch | None:
        """Return the batch that this one repeats, or None if it may be appended.

        Raises:
            InvalidProducerEpoch: a newer instance of the producer has written here.
            OutOfOrderSequenceNumber: the batch does not continue the producer's sequence.
            DuplicateSequenceNumber: it is in the log, before the batches that are retained.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        base_sequence = header.base_sequence
        if header.producer_epoch == entry.producer_epoch:
            expected = entry.last_sequence + 1
            if base_sequence == expected or (base_sequence == 0 and expected > INT32_MAX):
                return None
            last_sequence = header.last_sequence
            for batch in entry.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == base_sequence:
                    return batch
            if entry.batches and entry.has_before_retained(header):
                raise DuplicateSequenceNumber(
                    f"The batch of producer {header.producer_id} with sequence number {base_sequence} is in "
                    f"{self.topic_partition} already",
                    entry.batches[0].base_offset,
                )
            raise self._out_of_order(entry, base_sequence)
        if header.producer_epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {header.producer_id} in {self.topic_partition} is {header.producer_epoch},"
                f" which is smaller than the last seen epoch {entry.producer_epoch}"
            )
        if base_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
            raise self._out_of_order(entry, base_sequence)
        return None

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
            entry.producer_epoch = header.producer_epoch
            entry.batches.clear()
            entry.unbroken_records = 0
        elif header.base_sequence != increment_sequence(entry.last_sequence, 1):
            entry.unbroken_records = 0  # what is read anew may have gaps: what was compacted, or lost by a disk
        entry.unbroken_records = min(entry.unbroken_records + header.last_offset_delta + 1, UNBROKEN_RECORDS_MAX)
        entry.last_timestamp = timestamp
        entry.written_ms = written_ms
        entry.batches.append(ProducerBatch(header.last_sequence, last_offset, header.last_offset_delta, timestamp))

    def replay(self, header: RecordBatchHeader, written_ms: int = NO_TIMESTAMP) -> None:
        """Take in a batch found in the log or received from a leader, whose sequence was checked there."""
        if not carries_sequence(header):
            return
        entry = self._entries.get(header.producer_id)
        if entry is None or header.producer_epoch >= entry.producer_epoch:
            self.record(header, header.last_offset, header.max_timestamp, written_ms)

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
