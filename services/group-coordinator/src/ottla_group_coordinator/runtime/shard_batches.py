"""The batches that a shard's owner writes. Pure.

The records of many turns are packed into as few batches as possible, each turn into one batch, so that its
records are stored together or not at all. Only a turn too large for any batch is spread over several.

The batches of one ownership form a sequence, numbered as an idempotent producer's are: the partition's leader stores
a batch that comes again once, and refuses those of an owner before the last one. The first batch of an ownership has
no records; it takes sequence number 0 and one offset, and with it the producer's epoch is in the log.

Source: Kafka's record format, and KIP-98 for the numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    Buffer,
    RecordBatchHeader,
    increment_sequence,
    pack_header,
)
from ottla_core.wire.records import write_varint
from ottla_group_coordinator.runtime.state_machine import RecordFormat
from ottla_group_coordinator.runtime.turn import CoordinatorRecord

FENCING_SEQUENCE = 0

RECORD_OVERHEAD_BYTES_MAX = 32
"""What a record batch needs at most for a record besides its key and value: attributes, deltas and lengths."""

_SHORT_VARINTS = 8192
_NO_ATTRIBUTES = b"\0"
_NO_HEADERS = b"\0"
_NULL = b"\1"


class ShardProducer(NamedTuple):
    """What a shard's owner writes as; no two ownerships of a shard share it."""

    id: int
    epoch: int


def fencing_batch(producer: ShardProducer, now_ms: int) -> bytes:
    """Return the batch that keeps former owners of the shard from writing."""
    return empty_batch(producer, FENCING_SEQUENCE, now_ms)


def empty_batch(producer: ShardProducer, sequence: int, now_ms: int) -> bytes:
    """Return a batch without records, which the log takes only where it has all batches before it."""
    return _batch(
        producer,
        b"",
        base_sequence=sequence,
        offset_count=1,
        record_count=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
    )


class BatchPacker:
    """Packs the records of turns into batches.

    Args:
        producer: the owner.
        next_sequence: the sequence number of the first record.
        batch_bytes_max: the size that a batch must not exceed.
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
        self._batches: list[bytes] = []
        self._begin_batch()

    @property
    def size_bytes(self) -> int:
        """Bytes of all records that were added, about."""
        return self._full_bytes + len(self._section)

    def add(self, records: Sequence[CoordinatorRecord], now_ms: int) -> None:
        """Add the records of one turn."""
        encode_key, encode_value = self._encode_key, self._encode_value
        encoded = [
            (encode_key(record.key), None if record.value is None else encode_value(record.value))
            for record in records
        ]
        if len(self._section) + sum(map(_size_max, encoded)) > self._section_bytes_max:
            self._end_batch()
        for key, value in encoded:
            if len(self._section) + _size_max((key, value)) > self._section_bytes_max:
                self._end_batch()
            self._append(key, value, now_ms)

    def batches(self) -> list[bytes]:
        """Return the batches; none if there were no records."""
        self._end_batch()
        return self._batches

    def _begin_batch(self) -> None:
        self._section = bytearray()
        self._count = 0
        self._base_timestamp = self._max_timestamp = 0

    def _append(self, key: bytes, value: bytes | None, now_ms: int) -> None:
        if not self._count:
            self._base_timestamp = now_ms
        self._max_timestamp = now_ms
        body = b"".join(
            (
                _NO_ATTRIBUTES,
                _varint(now_ms - self._base_timestamp),
                _varint(self._count),
                _varint(len(key)),
                key,
                _NULL if value is None else _varint(len(value)) + value,
                _NO_HEADERS,
            )
        )
        self._section += _varint(len(body))
        self._section += body
        self._count += 1

    def _end_batch(self) -> None:
        if not self._count:
            return
        batch = _batch(
            self._producer,
            self._section,
            base_sequence=self.next_sequence,
            offset_count=self._count,
            record_count=self._count,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
        )
        self._batches.append(batch)
        self._full_bytes += len(batch)
        self.next_sequence = increment_sequence(self.next_sequence, self._count)
        self._begin_batch()


def _batch(
    producer: ShardProducer,
    section: Buffer,
    *,
    base_sequence: int,
    offset_count: int,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
) -> bytes:
    header = RecordBatchHeader(
        base_offset=0,
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(section),
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC_V2,
        crc=0,
        attributes=0,
        last_offset_delta=offset_count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=base_sequence,
        record_count=record_count,
    )
    return pack_header(header, section) + section


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
