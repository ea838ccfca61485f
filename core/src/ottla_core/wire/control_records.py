"""Control batches: the markers that end a transaction in a partition. Pure.

A marker is one record in a batch of its own, which has the control and transactional flags, the transaction's
producer id and epoch, and no sequence. The record's key is the version of its format and its type, and its value the
version and the coordinator's epoch. Other types of control records exist (those of Kafka's Raft log); they end
nothing. Source: Kafka's ControlRecordType and EndTransactionMarker, and `MemoryRecords.withEndTransactionMarker`.
"""

import struct
from dataclasses import dataclass
from typing import Final

from ottla_core.errors import InvalidRecord
from ottla_core.wire.record_batch import (
    CONTROL_FLAG,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    Buffer,
    RecordBatchHeader,
    pack_header,
)
from ottla_core.wire.records import iterate_records

_ABORT: Final = 0
_COMMIT: Final = 1
_FORMAT_VERSION: Final = 0

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")

_RECORD: Final = struct.Struct(">5bhhbhix")
_BEFORE_KEY: Final = 2 * (_RECORD.size - 1), 0, 0, 0, 2 * _KEY.size
"""The record's length, its attributes, its distances in time and offset, and its key's length; a varint of one byte
says twice a length."""
_VALUE_LENGTH: Final = 2 * _VALUE.size

PROMOTION_MARKER: Final = -1
"""As coordinator epoch: no coordinator has written the marker, but the leader of a partition that was promoted, or
that follows a source which has deleted what comes next.

It aborts what was open in records of another cluster, and its producer is forgotten with it: producer ids of two
clusters are not told apart by their numbers. Coordinators count from 0.
"""

_SECTION_SIZE_BYTES_MAX: Final = 64 * 1024
"""A control batch that unpacks to more holds no marker of any version; what comes in must not fill the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarker:
    """The end of a producer's transaction in one partition.

    Attributes:
        producer_id: the transaction's producer.
        producer_epoch: its epoch; one greater than that of the records if the epoch was raised at the end.
        is_commit: whether the records count; they are aborted otherwise.
        coordinator_epoch: the epoch of the coordinator that decided it, by which a former one's marker is refused; or
            `PROMOTION_MARKER`.
    """

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int


def marker_batch(
    marker: TransactionMarker, now_ms: int, *, base_offset: int = 0, leader_epoch: int = NO_LEADER_EPOCH
) -> bytes:
    """Return the batch that ends a transaction; a leader that appends it replaces base offset and leader epoch."""
    kind = _COMMIT if marker.is_commit else _ABORT
    record = _RECORD.pack(
        *_BEFORE_KEY, _FORMAT_VERSION, kind, _VALUE_LENGTH, _FORMAT_VERSION, marker.coordinator_epoch
    )
    header = RecordBatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(record),
        leader_epoch=leader_epoch,
        magic=MAGIC_V2,
        crc=0,
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG,
        last_offset_delta=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )
    return pack_header(header, record) + record


def read_marker(batch: Buffer, header: RecordBatchHeader) -> TransactionMarker | None:
    """Return the marker that a batch consists of, or None if it is none.

    Data is none, nor is a control batch of another type, or one of which compaction has left only the header. Later
    versions of the formats may only add to the end, so they are read as the first one.

    Raises:
        InvalidRecord: the batch has the control flag and several records, or its key or value is too short or has an
            impossible version.
        UnsupportedCompressionType: the codec is unknown.
    """
    if not header.is_control or not header.record_count:
        return None
    if header.record_count != 1:
        raise InvalidRecord(
            f"The control batch at offset {header.base_offset} has {header.record_count} records, not 1"
        )
    (record,) = iterate_records(batch, header, size_bytes_max=_SECTION_SIZE_BYTES_MAX)
    kind = _fields(_KEY, record.key, header, "key")
    if kind not in (_ABORT, _COMMIT):
        return None
    coordinator_epoch = _fields(_VALUE, record.value, header, "value")
    return TransactionMarker(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        is_commit=kind == _COMMIT,
        coordinator_epoch=coordinator_epoch,
    )


def _fields(layout: struct.Struct, data: bytes | None, header: RecordBatchHeader, name: str) -> int:
    if data is None or len(data) < layout.size:
        size = "no" if data is None else f"only {len(data)}"
        raise InvalidRecord(
            f"The {name} of the control record at offset {header.base_offset} has {size} bytes of {layout.size}"
        )
    version: int
    content: int
    version, content = layout.unpack_from(data)
    if version < 0:
        raise InvalidRecord(
            f"The {name} of the control record at offset {header.base_offset} has the impossible version {version}"
        )
    return content
