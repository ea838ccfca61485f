"""Transactions as one log sees them: what may be appended, what has ended, and what readers are told of it.

A leader checks batches with the transactional flag and markers here, before they are written. Afterwards
`ProducerStates` knows which transactions are open, and the segment that has an abort's marker gets an entry in its
transaction index. A follower does the same from what it is given, so it can serve readers of committed records too.

An index entry waits in memory like those of the other indexes, for a full disk must not fail the append that led to
it. It is on the disk before the recovery point passes the marker; behind that point a start makes the index anew.
"""

import struct
from typing import Final, Protocol

from ottla_broker.log.producers.producer_loading import aborted_entry
from ottla_broker.log.producers.producer_state import EndedTransaction, ProducerBatch, ProducerStates
from ottla_broker.log.producers.transaction_checks import check_client_batch, check_marker
from ottla_broker.log.producers.verification import VerificationGuard, Verifications
from ottla_broker.log.segments.log_slice import FileSlice, LogSlice
from ottla_broker.log.segments.segment_list import SegmentList
from ottla_broker.log.segments.stored_markers import marker_of
from ottla_broker.log.segments.transaction_index import AbortedTransaction
from ottla_core.errors import InvalidRecord
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.control_records import TransactionMarker, read_marker
from ottla_core.wire.record_batch import (
    ATTRIBUTES_OFFSET,
    CONTROL_FLAG,
    HEADER_SIZE_BYTES,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    Buffer,
    RecordBatchHeader,
    increment_sequence,
)

_FLAGS_OFFSET: Final = ATTRIBUTES_OFFSET + 1
_PRODUCER: Final = struct.Struct(">qh")
_PRODUCER_OFFSET: Final = 43

Aborted = tuple[int, int]
"""Producer id and first offset of an aborted transaction."""


class TransactionalLog(Protocol):
    """What is needed of the log."""

    topic_partition: TopicPartition
    segments: SegmentList
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    producers: ProducerStates


class LogTransactions:
    """The transactions of one log.

    Attributes:
        verifications: the guards of transactions that are being verified.
    """

    __slots__ = ("_log", "_may_have_aborts", "verifications")

    def __init__(self, log: TransactionalLog) -> None:
        self._log = log
        self._may_have_aborts = any(segment.transaction_index.entry_count for segment in log.segments)
        self.verifications = Verifications()

    # Appending

    def needs_verification(self, records: Buffer) -> bool:
        """Return whether a batch is of a transaction that is not open here; looks at its header alone.

        What is no batch needs none: it is refused when it is appended.
        """
        if len(records) < HEADER_SIZE_BYTES or not records[_FLAGS_OFFSET] & TRANSACTIONAL_FLAG:
            return False
        producer_id, producer_epoch = _PRODUCER.unpack_from(records, _PRODUCER_OFFSET)
        return producer_id >= 0 and not self._log.producers.has_open_transaction(producer_id, producer_epoch)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """Return the guard with which a batch that begins a transaction may be appended.

        Args:
            producer_id: the producer.
            producer_epoch: its epoch.
            base_sequence: the batch's.
            supports_epoch_bump: whether the epoch is raised at each end of a transaction (version 2).

        Raises:
            InvalidProducerEpoch: a later epoch has been seen.
        """
        producers = self._log.producers
        producers.check_epoch(producer_id, producer_epoch)
        entry = producers.get(producer_id)
        if entry is not None and entry.producer_epoch == producer_epoch and entry.has_batch_from(base_sequence):
            # What is repeated late must not keep out what follows: it is not going to be appended.
            base_sequence = increment_sequence(entry.last_sequence, 1)
        return self.verifications.begin(
            self._log.topic_partition,
            producer_id,
            producer_epoch,
            base_sequence,
            supports_epoch_bump=supports_epoch_bump,
        )

    def check_client_batch(self, header: RecordBatchHeader, guard: VerificationGuard | None) -> ProducerBatch | None:
        """Return the batch that a client's transactional one repeats, or None if it may be appended.

        Raises:
            KafkaError: as `transaction_checks.check_client_batch`.
        """
        is_valid = self.verifications.is_valid(guard, header.producer_id, header.producer_epoch)
        return check_client_batch(self._log.producers, header, guard if is_valid else None)

    def check_coordinator_batch(
        self, batch: memoryview, header: RecordBatchHeader, transaction_version: int | None
    ) -> tuple[ProducerBatch | None, TransactionMarker | None]:
        """Return the batch that a coordinator's transactional one repeats, and the marker that it is, if any.

        Args:
            batch: its bytes.
            header: its header.
            transaction_version: of the transaction that a marker ends.

        Raises:
            InvalidRecord: it is a control batch and no marker.
            InvalidProducerEpoch, TransactionCoordinatorFenced: it is late.
            OutOfOrderSequenceNumber, DuplicateSequenceNumber: it has a sequence number, and a wrong one.
        """
        producers = self._log.producers
        if header.attributes & CONTROL_FLAG:
            return None, self._checked_marker(batch, header, transaction_version)
        if header.base_sequence != NO_SEQUENCE:
            return producers.check(header), None
        producers.check_epoch(header.producer_id, header.producer_epoch)
        return None, None

    def _checked_marker(
        self, batch: memoryview, header: RecordBatchHeader, transaction_version: int | None
    ) -> TransactionMarker:
        marker = read_marker(batch, header)
        if marker is None:
            raise InvalidRecord(f"A control batch for {self._log.topic_partition} is no marker of a transaction")
        assert transaction_version is not None, "who writes a marker knows the transaction's version"
        check_marker(self._log.producers, marker, transaction_version)
        return marker

    def batch_written(
        self,
        header: RecordBatchHeader,
        marker: TransactionMarker | None,
        last_offset: int,
        timestamp: int,
        now_ms: int,
    ) -> None:
        """Take in a batch with the transactional flag that has been appended as the leader."""
        producers = self._log.producers
        self.verifications.void(header.producer_id)
        if marker is None:
            producers.record(header, last_offset, timestamp, now_ms)
        else:
            self._note_ended(producers.end_transaction(marker, last_offset, timestamp, now_ms))

    def replay(self, header: RecordBatchHeader, batches: memoryview, position: int, now_ms: int) -> None:
        """Take in a batch that has been appended as a follower.

        Args:
            header: its header.
            batches: it and others.
            position: where it begins among them.
            now_ms: the clock.
        """
        marker = None
        if header.attributes & CONTROL_FLAG:
            marker = marker_of(batches[position : position + header.size_bytes], header)
        self._note_ended(self._log.producers.replay(header, now_ms, marker))

    def _note_ended(self, ended: EndedTransaction | None) -> None:
        if ended is not None and not ended.is_commit:
            self._log.segments.active.transaction_index.append(aborted_entry(ended))
            self._may_have_aborts = True

    # Reading

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided, and that is replicated. Source: Kafka's UnifiedLog."""
        log = self._log
        high_watermark = log.high_watermark
        unstable = log.producers.transactions.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, log.log_start_offset)

    def aborted_entries(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that may have records in a range of decided offsets.

        They are in the order of their markers, which may lie behind the range, even in later segments.

        Raises:
            OSError: the disk failed.
        """
        segments = self._log.segments
        found: list[AbortedTransaction] = []
        for number in range(segments.number_for(start_offset), len(segments)):
            index = segments[number].transaction_index
            if index.entry_count:
                entries, is_complete = index.overlapping(start_offset, end_offset)
                found += entries
                if is_complete:
                    break
        return found

    def aborted(self, start_offset: int, end_offset: int) -> list[Aborted]:
        """Return the aborted transactions that may have records in a range, in order of their first offsets.

        Raises:
            OSError: the disk failed.
        """
        found = [(entry.producer_id, entry.first_offset) for entry in self.aborted_entries(start_offset, end_offset)]
        found.sort(key=_first_offset)
        return found

    def aborted_in(self, offset: int, records: LogSlice) -> list[Aborted]:
        """Return the aborted transactions that a reader of these records has to know.

        Args:
            offset: where it reads.
            records: what the log has just been found to have there.

        Raises:
            OSError: the disk failed.
        """
        if not self._may_have_aborts:
            return []
        return self.aborted(offset, self._end_of(self._log.segments.number_for(offset), records))

    def _end_of(self, number: int, records: LogSlice) -> int:
        """Return an offset that no record of a slice reaches; it may lie some batches behind them."""
        segments = self._log.segments
        if isinstance(records, FileSlice):
            while number < len(segments) and segments[number].file() is not records.file:
                number += 1  # there was a gap
            if number < len(segments):
                end = segments[number].offset_after(records.position + records.size)
                if end is not None:
                    return end
                end = segments.end_offset(number)
                if end is not None:
                    return end
        return self._log.log_end_offset

    def silent_ms(self, now_ms: int) -> int:
        """Return for how long the producer of the transaction that is open longest has written nothing here.

        Beyond the largest timeout of transactions it hangs; 0 if none is open.
        Source: `hasLateTransaction` of Kafka's ProducerStateManager.
        """
        producer_id = self._log.producers.transactions.first_open()
        entry = None if producer_id is None else self._log.producers.get(producer_id)
        return 0 if entry is None else max(0, now_ms - max(entry.last_timestamp, entry.written_ms))


def _first_offset(aborted: Aborted) -> int:
    return aborted[1]
