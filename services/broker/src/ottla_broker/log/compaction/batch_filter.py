"""What compaction leaves of one batch: all of it as it is, a smaller batch, an empty one, or nothing. Pure.

A record goes if a later one has its key. A tombstone, which has no value, stays for `delete.retention.ms` after the
first round that applied it: that round writes the time until which it stays, the delete horizon, into the batch in
place of the base timestamp (KIP-534), and a round after that time drops it.

A batch keeps its offsets, producer and sequence numbers whatever is left in it. It stays without any records where
it is the last one of an active producer, whose sequence would otherwise be forgotten, or the round's last one, so
that the log's last offset can be told from its batches. Bytes that need no change are copied, not encoded anew.
Records of aborted transactions go at once. A marker whose transaction has nothing left gets a delete horizon as
tombstones do, and goes after it, unless it is all that tells its producer's epoch (`cleaned_transactions.py`).
Source: Kafka's Cleaner.cleanInto and MemoryRecords.filterTo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_broker.log.compaction.cleaned_transactions import CleanedTransactions
from ottla_broker.log.compaction.offset_map import OffsetMap
from ottla_core.errors import KafkaError
from ottla_core.wire.compression import Codec, codec_of, compress
from ottla_core.wire.control_records import TransactionMarker, read_marker
from ottla_core.wire.record_batch import (
    BATCH_LENGTH_MIN,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    NO_TIMESTAMP,
    Buffer,
    RecordBatchHeader,
    TimestampType,
    pack_header,
)
from ottla_core.wire.record_walk import Span, largest_timestamp_delta, shift_timestamps, walk_records
from ottla_core.wire.records import records_section


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRules:
    """What a round goes by.

    Attributes:
        newest: the newest offset of each key of the dirty part.
        mapped_end: keys of batches from this one on are not all known, so these batches stay.
        end_offset: the offset at which the round ends.
        now_ms: the clock at the beginning of the round.
        delete_retention_ms: the topic's `delete.retention.ms`.
        last_offsets: the last offset of each active producer.
        last_markers: the epoch of each active producer of which there is nothing but a marker since its epoch began.
    """

    newest: OffsetMap
    mapped_end: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    last_offsets: Mapping[int, int]
    last_markers: Mapping[int, int]


class BatchFilter:
    """Applies the rules of one round to a group of segments.

    Attributes:
        transactions: those of the round, which goes from one group to the next.
        records_read, records_kept: counts so far.
    """

    __slots__ = ("_rules", "records_kept", "records_read", "transactions")

    def __init__(self, rules: FilterRules, transactions: CleanedTransactions) -> None:
        self._rules = rules
        self.transactions = transactions
        self.records_read = 0
        self.records_kept = 0

    def left_of(self, header: RecordBatchHeader, batch: memoryview) -> Buffer | None:
        """Return the batch to store in place of this one, or None for none.

        Raises:
            InvalidRecord, UnsupportedCompressionType: the records cannot be read.
        """
        count = header.record_count
        self.records_read += count
        if header.attributes & CONTROL_FLAG:
            left = self._left_of_marker(header, batch)
            self.records_kept += 0 if left is None else count
            return left
        is_aborted = self.transactions.meet_data(header)
        if header.base_offset >= self._rules.mapped_end:
            self.records_kept += count
            return batch
        assert header.last_offset < self._rules.mapped_end, "keys are taken in batch by batch"
        if is_aborted:
            return self._empty(header) if self._must_stay(header) else None
        section = records_section(batch, header)
        kept, has_tombstones = self._kept_records(header, section)
        self.records_kept += len(kept)
        if not kept:
            return self._empty(header) if self._must_stay(header) else None
        if has_tombstones and header.delete_horizon_ms is None:
            return self._with_horizon(header, section, kept)
        return batch if len(kept) == count else _without_others(header, section, kept)

    def _left_of_marker(self, header: RecordBatchHeader, batch: memoryview) -> Buffer | None:
        """Return the control batch to store in place of this one, or None for none."""
        rules = self._rules
        is_over = self.transactions.meet_marker(header, _marker_of(batch, header))
        if not is_over or header.base_offset >= rules.mapped_end:
            return batch
        if self._must_stay(header) or rules.last_markers.get(header.producer_id) == header.producer_epoch:
            return batch  # with its record, which tells the coordinator's epoch
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None and header.record_count:
            section = records_section(batch, header)
            kept = [(start, end) for start, end, *_ in walk_records(section, header)]
            return self._with_horizon(header, section, kept)
        return None if horizon_ms is None or horizon_ms <= rules.now_ms else batch

    def _kept_records(self, header: RecordBatchHeader, section: bytes) -> tuple[list[Span], bool]:
        """Return where the records lie that stay, and whether there are tombstones among them."""
        newest = self._rules.newest.get
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._rules.now_ms < horizon_ms
        kept: list[Span] = []
        has_tombstones = False
        for start, end, offset, key, has_value in walk_records(section, header):
            if key is None or not (has_value or keeps_tombstones) or offset < newest(key):
                continue
            kept.append((start, end))
            has_tombstones = has_tombstones or not has_value
        return kept, has_tombstones

    def _must_stay(self, header: RecordBatchHeader) -> bool:
        """Return whether a batch stays even without records."""
        return header.next_offset == self._rules.end_offset or (
            header.producer_id >= 0 and self._rules.last_offsets.get(header.producer_id) == header.last_offset
        )

    @staticmethod
    def _empty(header: RecordBatchHeader) -> bytes:
        return pack_header(
            header._replace(
                batch_length=BATCH_LENGTH_MIN,
                attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG),
                base_timestamp=NO_TIMESTAMP,
                record_count=0,
            ),
            b"",
        )

    def _with_horizon(self, header: RecordBatchHeader, section: bytes, kept: Sequence[Span]) -> bytes:
        """Return a batch of the kept records, of which tombstones or a marker will go after `delete.retention.ms`."""
        horizon_ms = self._rules.now_ms + self._rules.delete_retention_ms
        return _encoded(
            header._replace(
                attributes=header.attributes | DELETE_HORIZON_FLAG,
                base_timestamp=horizon_ms,
                max_timestamp=_max_timestamp(header, section, kept),
                record_count=len(kept),
            ),
            shift_timestamps(section, kept, header.base_timestamp - horizon_ms),
        )


def _marker_of(batch: memoryview, header: RecordBatchHeader) -> TransactionMarker | None:
    """Return a control batch's marker; one that cannot be read is none, and stays."""
    try:
        return read_marker(batch, header)
    except KafkaError:
        return None


def _without_others(header: RecordBatchHeader, section: bytes, kept: Sequence[Span]) -> bytes:
    """Return a batch of the kept records, whose bytes are as they were."""
    return _encoded(
        header._replace(max_timestamp=_max_timestamp(header, section, kept), record_count=len(kept)),
        b"".join([section[start:end] for start, end in kept]),
    )


def _max_timestamp(header: RecordBatchHeader, section: bytes, kept: Sequence[Span]) -> int:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME or len(kept) == header.record_count:
        return header.max_timestamp
    return header.base_timestamp + largest_timestamp_delta(section, kept)


def _encoded(header: RecordBatchHeader, section: bytes) -> bytes:
    codec: Final = codec_of(header.codec_id)
    body = section if codec is Codec.NONE else compress(codec, section)
    return pack_header(header._replace(batch_length=BATCH_LENGTH_MIN + len(body)), body) + body
