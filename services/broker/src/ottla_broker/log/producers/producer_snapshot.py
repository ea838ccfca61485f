"""Producer state on disk: a `.snapshot` file for every segment boundary and for the log's end at a clean stop.

The file is a version, a CRC-32C of what follows, and an array of producers, each with its last batch only; those
before it are looked up in the log (`producer_history.py`). A snapshot named after offset N holds the effect of all
batches below N. Source: Kafka's ProducerSnapshot message, version 1.
"""

import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from crc32c import crc32c

from ottla_broker.log.producers.producer_state import ProducerBatch, ProducerEntry
from ottla_core.errors import CorruptMessage

SNAPSHOT_SUFFIX: Final = ".snapshot"

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


def snapshot_path(directory: Path, offset: int) -> Path:
    """Return the path of the snapshot of all batches below `offset`."""
    return directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def snapshot_offsets(directory: Path) -> list[int]:
    """Return the offsets of the snapshots in a directory, ascending."""
    return sorted(
        int(path.stem) for path in directory.iterdir() if path.suffix == SNAPSHOT_SUFFIX and path.stem.isdigit()
    )


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the content of a snapshot file."""
    rows = []
    for entry in entries:
        last = entry.batches[-1] if entry.batches else ProducerBatch(-1, -1, 0, entry.last_timestamp)
        rows.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_transaction_first_offset,
            )
        )
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Return the producers of a snapshot file.

    Raises:
        CorruptMessage: the version is unknown, the CRC does not match, or the length is not what it says.
    """
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptMessage(f"Producer snapshot of {len(data)} bytes is cut short")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptMessage(f"Producer snapshot has unknown version {version}")
    body = memoryview(data)[_HEAD.size :]
    if crc32c(body) != crc:
        raise CorruptMessage("Producer snapshot does not match its CRC")
    (count,) = _COUNT.unpack_from(body)
    if count * _ENTRY.size != len(body) - _COUNT.size:
        raise CorruptMessage(f"Producer snapshot declares {count} producers in {len(body)} bytes")
    entries = []
    for producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, transaction in _ENTRY.iter_unpack(
        body[_COUNT.size :]
    ):
        entry = ProducerEntry(producer_id, epoch, timestamp, coordinator_epoch, transaction)
        if offset >= 0:
            entry.batches.append(ProducerBatch(sequence, offset, delta, timestamp))
        entries.append(entry)
    return entries


def write_snapshot(path: Path, entries: Iterable[ProducerEntry], *, sync: bool) -> None:
    """Write a snapshot file; raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        data = encode_snapshot(entries)
        while data:
            data = data[os.write(descriptor, data) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
