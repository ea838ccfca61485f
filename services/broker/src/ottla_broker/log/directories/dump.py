"""What is in a log's files, for people: the rows that `ottla log dump` prints.

Field names and order are those of Kafka's DumpLogSegments, so that scripts which read its output read this too.
Indexes are compared with the segment they belong to, and whatever does not fit is a row of kind `problem`.
Files are only read; a broker may be using them.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla_broker.log.directories.log_directory import META_PROPERTIES
from ottla_broker.log.files.checkpoint_file import read_checkpoint
from ottla_broker.log.files.leader_epoch_checkpoint import LEADER_EPOCH_CHECKPOINT
from ottla_broker.log.files.offset_checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from ottla_broker.log.files.partition_metadata import PARTITION_METADATA
from ottla_broker.log.producers.producer_snapshot import SNAPSHOT_SUFFIX, decode_snapshot
from ottla_broker.log.segments.offset_index import OffsetIndex
from ottla_broker.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla_broker.log.segments.time_index import TimeIndex
from ottla_broker.log.segments.transaction_index import read_transaction_index
from ottla_core.errors import InvalidRequest, KafkaError
from ottla_core.wire.compression import Codec
from ottla_core.wire.control_records import TransactionMarker, read_marker
from ottla_core.wire.record_batch import (
    BATCH_LENGTH_MIN,
    HEADER,
    HEADER_SIZE_BYTES,
    MAGIC_V2,
    RecordBatchHeader,
    TimestampType,
    crc_is_valid,
    increment_sequence,
)
from ottla_core.wire.records import Record, iterate_records

_TIMESTAMP_NAME: Final = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class DumpRow:
    """One line of a dump.

    Attributes:
        kind: `batch`, `record`, `entry`, or `problem`.
        fields: names and values, in the order in which they are shown.
    """

    kind: str
    fields: Mapping[str, object]

    def as_line(self) -> str:
        """Return the row in the form of Kafka's tool."""
        text = " ".join(f"{name}: {_shown(value)}" for name, value in self.fields.items())
        return f"| {text}" if self.kind == "record" else text


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _problem(text: str) -> DumpRow:
    return DumpRow("problem", {"problem": text})


def dump_file(path: Path, *, records: bool = False) -> Iterator[DumpRow]:
    """Yield the rows of one file of a log or log directory.

    Args:
        path: a `.log`, `.index`, `.timeindex`, `.txnindex`, `.snapshot` or checkpoint file.
        records: show each record of a `.log` too, with key, value and headers.

    Raises:
        InvalidRequest: the file is of no known kind.
        OSError: it cannot be read.
    """
    if path.suffix == LOG_SUFFIX:
        return _dump_log(path, records=records)
    dump = _BY_SUFFIX.get(path.suffix) or _BY_NAME.get(path.name)
    if dump is None:
        raise InvalidRequest(f"{path} is no file of a log: expected one of {', '.join([LOG_SUFFIX, *_BY_SUFFIX])}")
    return _reporting_damage(dump, path)


def _reporting_damage(dump: Callable[[Path], Iterator[DumpRow]], path: Path) -> Iterator[DumpRow]:
    try:
        yield from dump(path)
    except KafkaError as error:
        yield _problem(error.message)


def _batches(path: Path, position: int = 0) -> Iterator[tuple[int, RecordBatchHeader, bytes]]:
    """Yield position, header and bytes of each batch from a batch's start, as far as there are any."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while size - position >= HEADER_SIZE_BYTES:
            file.seek(position)
            header = RecordBatchHeader._make(HEADER.unpack(file.read(HEADER_SIZE_BYTES)))
            plausible = header.magic == MAGIC_V2 and header.batch_length >= BATCH_LENGTH_MIN
            if not plausible or header.size_bytes > size - position:
                return
            file.seek(position)
            yield position, header, file.read(header.size_bytes)
            position += header.size_bytes


def _dump_log(path: Path, *, records: bool) -> Iterator[DumpRow]:
    end = 0
    for position, header, batch in _batches(path):
        end = position + header.size_bytes
        yield _batch_row(position, header, batch)
        if records:
            try:
                marker = read_marker(batch, header)
                for record in iterate_records(batch, header):
                    yield _record_row(header, record, marker)
            except KafkaError as error:
                yield _problem(error.message)
    left = path.stat().st_size - end
    if left > 0:
        yield _problem(f"Found {left} invalid bytes at the end of {path.name}, from position {end}")


def _batch_row(position: int, header: RecordBatchHeader, batch: bytes) -> DumpRow:
    codec = header.codec_id
    return DumpRow(
        "batch",
        {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": "OptionalLong.empty"
            if header.delete_horizon_ms is None
            else f"OptionalLong[{header.delete_horizon_ms}]",
            "position": position,
            _TIMESTAMP_NAME[header.timestamp_type]: header.max_timestamp,
            "size": header.size_bytes,
            "magic": header.magic,
            "compresscodec": Codec(codec).name.lower() if codec <= max(Codec) else f"unknown({codec})",
            "crc": header.crc,
            "isvalid": crc_is_valid(batch, header),
        },
    )


def _record_row(header: RecordBatchHeader, record: Record, marker: TransactionMarker | None) -> DumpRow:
    sequence = -1
    if header.base_sequence >= 0:
        sequence = increment_sequence(header.base_sequence, record.offset - header.base_offset)
    fields: dict[str, object] = {
        "offset": record.offset,
        _TIMESTAMP_NAME[header.timestamp_type]: record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "headerKeys": f"[{','.join(name for name, _ in record.headers)}]",
    }
    if marker is not None:
        fields["endTxnMarker"] = "COMMIT" if marker.is_commit else "ABORT"
        fields["coordinatorEpoch"] = marker.coordinator_epoch
        return DumpRow("record", fields)
    if record.key is not None:
        fields["key"] = record.key
    if record.value is not None:
        fields["payload"] = record.value
    return DumpRow("record", fields)


def _dump_offset_index(path: Path) -> Iterator[DumpRow]:
    index = OffsetIndex.open(path, int(path.stem))
    yield from _partial_entry(path, OffsetIndex.ENTRY.size)
    for relative, position in index.entries():
        offset = index.base_offset + relative
        yield DumpRow("entry", {"offset": offset, "position": position})
        found = next(_batches(path.with_suffix(LOG_SUFFIX), position), None)
        if found is None or found[1].last_offset != offset:
            there = "no batch" if found is None else f"a batch that ends with offset {found[1].last_offset}"
            yield _problem(f"Index offset: {offset}, but at position {position} the log has {there}")


def _dump_time_index(path: Path) -> Iterator[DumpRow]:
    index = TimeIndex.open(path, int(path.stem))
    offset_index = OffsetIndex.open(path.with_suffix(INDEX_SUFFIX), index.base_offset)
    yield from _partial_entry(path, TimeIndex.ENTRY.size)
    previous = -1
    for timestamp, relative in index.entries():
        offset = index.base_offset + relative
        yield DumpRow("entry", {"timestamp": timestamp, "offset": offset})
        if timestamp <= previous:
            yield _problem(f"Index timestamp: {timestamp} follows {previous}, which is not smaller")
        previous = timestamp
        start = offset_index.position_for_offset(offset)
        batches = _batches(path.with_suffix(LOG_SUFFIX), start)
        header = next((header for _, header, _ in batches if header.last_offset >= offset), None)
        if header is None or header.last_offset != offset:
            yield _problem(f"Indexed offset: {offset} is not the last offset of a batch")
        elif header.max_timestamp != timestamp:
            yield _problem(f"Index timestamp: {timestamp}, log timestamp: {header.max_timestamp}")


def _partial_entry(path: Path, entry_size: int) -> Iterator[DumpRow]:
    excess = path.stat().st_size % entry_size
    if excess:
        yield _problem(f"{path.name} ends with {excess} bytes that are no whole entry")


def _dump_transaction_index(path: Path) -> Iterator[DumpRow]:
    log_path = path.with_suffix(LOG_SUFFIX)
    aborts = _aborts_in(log_path) if log_path.exists() else None
    previous = -1
    for entry in read_transaction_index(path):
        yield DumpRow(
            "entry",
            {
                "version": entry.version,
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            },
        )
        if entry.last_offset <= previous:
            yield _problem(f"Last offset: {entry.last_offset} follows {previous}, which is not smaller")
        previous = entry.last_offset
        if aborts is not None and aborts.get(entry.last_offset) != entry.producer_id:
            yield _problem(
                f"Last offset: {entry.last_offset} is not that of an abort of producer {entry.producer_id}"
            )


def _aborts_in(path: Path) -> dict[int, int]:
    """Return the offsets of all aborts' markers in a segment, and their producers."""
    found = {}
    for _, header, batch in _batches(path):
        if header.is_control:
            with suppress(KafkaError):  # the dump of the segment says so
                marker = read_marker(batch, header)
                if marker is not None and not marker.is_commit:
                    found[header.last_offset] = marker.producer_id
    return found


def _dump_snapshot(path: Path) -> Iterator[DumpRow]:
    for entry in decode_snapshot(path.read_bytes()):
        transaction = entry.current_transaction_first_offset
        fields: dict[str, object] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": "OptionalLong.empty" if transaction < 0 else f"OptionalLong[{transaction}]",
            "lastTimestamp": entry.last_timestamp,
        }
        if entry.batches:
            batch = entry.batches[-1]
            fields |= {
                "firstSequence": batch.first_sequence,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
        yield DumpRow("entry", fields)


def _dump_leader_epochs(path: Path) -> Iterator[DumpRow]:
    for epoch, start_offset in read_checkpoint(path, 2):
        yield DumpRow("entry", {"epoch": epoch, "startOffset": start_offset})


def _dump_offsets(path: Path) -> Iterator[DumpRow]:
    for topic, partition, offset in read_checkpoint(path, 3):
        yield DumpRow("entry", {"topic": topic, "partition": partition, "offset": offset})


def _dump_properties(path: Path) -> Iterator[DumpRow]:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        separator = "=" if "=" in line else ":"
        name, _, value = line.partition(separator)
        if name.strip() and not line.startswith("#"):
            yield DumpRow("entry", {name.strip(): value.strip()})


_BY_SUFFIX: Final[Mapping[str, Callable[[Path], Iterator[DumpRow]]]] = {
    INDEX_SUFFIX: _dump_offset_index,
    TIME_INDEX_SUFFIX: _dump_time_index,
    TRANSACTION_INDEX_SUFFIX: _dump_transaction_index,
    SNAPSHOT_SUFFIX: _dump_snapshot,
}

_BY_NAME: Final[Mapping[str, Callable[[Path], Iterator[DumpRow]]]] = {
    LEADER_EPOCH_CHECKPOINT: _dump_leader_epochs,
    RECOVERY_POINT_CHECKPOINT: _dump_offsets,
    HIGH_WATERMARK_CHECKPOINT: _dump_offsets,
    LOG_START_OFFSET_CHECKPOINT: _dump_offsets,
    CLEANER_OFFSET_CHECKPOINT: _dump_offsets,
    PARTITION_METADATA: _dump_properties,
    META_PROPERTIES: _dump_properties,
}
