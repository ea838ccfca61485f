"""The batches that a shard's owner writes. Pure.

The records of many turns are packed into as few batches as possible, each turn into one batch, so that its
records are stored together or not at all. Only a turn too large for any batch is spread over several.

The batches of one ownership form a sequence, numbered as an idempotent producer's are: the partition's leader stores
a batch that comes again once, and refuses those of an owner before the last one. The first batch of an ownership has
no records; it takes sequence number 0 and one offset, and with it the producer's epoch is in the log.

What belongs to transactions bears the id and epoch of the transaction's producer and no sequence: batches of its
records, and markers. They are appended together with a batch of the sequence, right before it, which says for them
who writes and whether they are stored already. All is appended in the order in which it was decided, so records
of transactions that follow records of the sequence go with the next batch of it, an empty one if need be.

An append may be cut off behind some of the batches before the sequenced one (a leader dies, and the next one has got
no further). All of it is appended again then. This comes to the same as one append, and the log takes it, since none
of its batches follows another that it could not precede: what has ended a producer's transaction, or raised its
epoch, is the last of this producer in an append.

Source: Kafka's record format, and KIP-98 for the numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla_core.wire.control_records import TransactionMarker, marker_batch
from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    RecordBatchHeader,
    increment_sequence,
    pack_header,
)
from ottla_core.wire.records import write_varint
from ottla_group_coordinator.runtime.state_machine import RecordFormat
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, TransactionProducer

FENCING_SEQUENCE = 0

RECORD_OVERHEAD_BYTES_MAX = 32
"""What a record batch needs at most for a record besides its key and value: attributes, deltas and lengths."""

_SHORT_VARINTS = 8192
_NO_ATTRIBUTES = b"\0"
_NO_HEADERS = b"\0"
_NULL = b"\1"
_ENDED = None


class ShardProducer(NamedTuple):
    """What a shard's owner writes as; no two ownerships of a shard share it."""

    id: int
    epoch: int


class ShardAppend(NamedTuple):
    """What is appended at once.

    Attributes:
        batch: of the owner's sequence.
        preceding: what belongs to transactions, in its order.
    """

    batch: bytes
    preceding: tuple[bytes, ...] = ()


def fencing_batch(producer: ShardProducer, now_ms: int) -> bytes:
    """Return the batch that keeps former owners of the shard from writing."""
    return empty_batch(producer, FENCING_SEQUENCE, now_ms)


def empty_batch(producer: ShardProducer, sequence: int, now_ms: int) -> bytes:
    """Return a batch without records, which the log takes only where it has all batches before it."""
    return _batch(producer, _Section(now_ms), base_sequence=sequence)


class BatchPacker:
    """Packs the records of turns into batches.

    Args:
        producer: the owner.
        next_sequence: the sequence number of the first record.
        batch_bytes_max: the size that a batch must not exceed, and about that of all before it in an append.
        record_format: how the records are written.

    Attributes:
        next_sequence: the sequence number after all records that were added.
    """

    def __init__(
        self, producer: ShardProducer, next_sequence: int, batch_bytes_max: int, record_format: RecordFormat
    ) -> None:
        self.next_sequence = next_sequence
        self._full_bytes = 0
        self._producer = producer
        self._encode_key = record_format.encode_key
        self._encode_value = record_format.encode_value
        self._section_bytes_max = batch_bytes_max - HEADER_SIZE_BYTES
        self._appends: list[ShardAppend] = []
        self._begin_append()

    @property
    def size_bytes(self) -> int:
        """Bytes of all records that were added, about."""
        begun_bytes = len(self._section.content) + len(self._transactional.content)
        return self._full_bytes + self._preceding_bytes + begun_bytes

    def add(
        self, records: Sequence[CoordinatorRecord], now_ms: int, transaction: TransactionProducer | None = None
    ) -> None:
        """Add the records of one turn; they may belong to a transaction."""
        encode_key, encode_value = self._encode_key, self._encode_value
        encoded = [
            (encode_key(record.key), None if record.value is None else encode_value(record.value))
            for record in records
        ]
        if transaction is not None:
            self._add_in_transaction(encoded, now_ms, transaction)
            return
        section = self._section
        if section.count and len(section.content) + sum(map(_size_max, encoded)) > self._section_bytes_max:
            self._end_append()
        for each in encoded:
            section = self._section
            if section.count and len(section.content) + _size_max(each) > self._section_bytes_max:
                self._end_append()
            self._section.append(*each, now_ms)

    def add_marker(self, marker: TransactionMarker, now_ms: int) -> None:
        """Add the end of a transaction."""
        if self._section.count or marker.producer_id in self._transactions or not self._has_room(HEADER_SIZE_BYTES):
            self._end_append()
        self._end_transactional_batch()
        self._precede(marker_batch(marker, now_ms))
        self._preceding_ms = now_ms
        self._transactions[marker.producer_id] = _ENDED

    def appends(self) -> list[ShardAppend]:
        """Return what is to be appended, one after the other; nothing if nothing was added."""
        self._end_append()
        return self._appends

    def _begin_append(self) -> None:
        self._section = _Section()
        self._preceding: list[bytes] = []
        self._preceding_bytes = 0
        self._preceding_ms = 0
        self._transaction: TransactionProducer | None = None
        self._transactional = _Section()
        self._transactions: dict[int, int | None] = {}

    def _has_room(self, size_bytes: int) -> bool:
        """Return whether so much more may precede the batch; something always may, or nothing would ever."""
        present = self._preceding_bytes + len(self._transactional.content)
        return not present or present + size_bytes <= self._section_bytes_max

    def _add_in_transaction(
        self, encoded: Sequence[tuple[bytes, bytes | None]], now_ms: int, transaction: TransactionProducer
    ) -> None:
        goes_on = self._transactions.get(transaction.id, transaction.epoch) == transaction.epoch
        if self._section.count or not goes_on or not self._has_room(sum(map(_size_max, encoded))):
            self._end_append()
        if self._transaction != transaction:
            self._end_transactional_batch()
            self._transaction = transaction
        self._transactions[transaction.id] = transaction.epoch
        self._preceding_ms = now_ms
        for each in encoded:
            section = self._transactional
            if section.count and len(section.content) + _size_max(each) > self._section_bytes_max:
                self._end_transactional_batch()
            self._transactional.append(*each, now_ms)

    def _end_transactional_batch(self) -> None:
        if not self._transactional.count:
            return
        section, self._transactional = self._transactional, _Section()
        assert self._transaction is not None
        self._precede(_batch(self._transaction, section, base_sequence=NO_SEQUENCE, attributes=TRANSACTIONAL_FLAG))

    def _precede(self, batch: bytes) -> None:
        self._preceding.append(batch)
        self._preceding_bytes += len(batch)

    def _end_append(self) -> None:
        self._end_transactional_batch()
        section = self._section
        if section.count:
            batch = _batch(self._producer, section, base_sequence=self.next_sequence)
        elif self._preceding:
            batch = empty_batch(self._producer, self.next_sequence, self._preceding_ms)
        else:
            return
        self._appends.append(ShardAppend(batch, tuple(self._preceding)))
        self._full_bytes += len(batch) + self._preceding_bytes
        self.next_sequence = increment_sequence(self.next_sequence, max(section.count, 1))
        self._begin_append()


class _Section:
    """The records of a batch, packed."""

    __slots__ = ("base_timestamp", "content", "count", "max_timestamp")

    def __init__(self, now_ms: int = 0) -> None:
        self.content = bytearray()
        self.count = 0
        self.base_timestamp = self.max_timestamp = now_ms

    def append(self, key: bytes, value: bytes | None, now_ms: int) -> None:
        if not self.count:
            self.base_timestamp = now_ms
        self.max_timestamp = now_ms
        body = b"".join(
            (
                _NO_ATTRIBUTES,
                _varint(now_ms - self.base_timestamp),
                _varint(self.count),
                _varint(len(key)),
                key,
                _NULL if value is None else _varint(len(value)) + value,
                _NO_HEADERS,
            )
        )
        self.content += _varint(len(body))
        self.content += body
        self.count += 1


def _batch(
    producer: ShardProducer | TransactionProducer, section: _Section, *, base_sequence: int, attributes: int = 0
) -> bytes:
    """Return a batch; one without records takes one offset all the same."""
    header = RecordBatchHeader(
        base_offset=0,
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(section.content),
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC_V2,
        crc=0,
        attributes=attributes,
        last_offset_delta=max(section.count, 1) - 1,
        base_timestamp=section.base_timestamp,
        max_timestamp=section.max_timestamp,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=base_sequence,
        record_count=section.count,
    )
    return pack_header(header, section.content) + section.content


def _size_max(record: tuple[bytes, bytes | None]) -> int:
    key, value = record
    return len(key) + (len(value) if value else 0) + RECORD_OVERHEAD_BYTES_MAX


def _encode_varint(value: int) -> bytes:
    output = bytearray()
    write_varint(output, value)
    return bytes(output)


_VARINTS = tuple(_encode_varint(value) for value in range(_SHORT_VARINTS))


def _varint(value: int) -> bytes:
    return _VARINTS[value] if 0 <= value < _SHORT_VARINTS else _encode_varint(value)
