"""What the dump of each kind of file shows, and that it finds what does not fit."""

import struct
from pathlib import Path
from uuid import UUID

import pytest

from ottla_broker.log.directories.dump import DumpRow, dump_file
from ottla_broker.log.files.offset_checkpoint import OffsetCheckpoint
from ottla_broker.log.files.partition_metadata import write_partition_metadata
from ottla_core.errors import InvalidRequest
from ottla_core.wire.compression import Codec
from tests.support.broker.partition_logs import (
    NOW_MS,
    PARTITION,
    append,
    batch_of,
    open_log,
    segment_files,
    small_segments,
)
from tests.support.broker.transactional_logs import end, write


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A closed log of several segments."""
    log = open_log(tmp_path, config=small_segments(segment_bytes=2000))
    for number in range(40):
        append(log, b"value %d" % number, None, timestamps=[NOW_MS + number] * 2, producer=(5, 1, number * 2))
    log.close()
    return tmp_path


def rows(path: Path, *, records: bool = False) -> list[DumpRow]:
    return list(dump_file(path, records=records))


def problems(path: Path) -> list[str]:
    return [row.as_line() for row in rows(path) if row.kind == "problem"]


def test_batches_and_records_are_shown_as_kafka_shows_them(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch_of(b"v", None, codec=Codec.GZIP, producer=(5, 1, 7), leader_epoch=3))
    batch, first, second = rows(path, records=True)
    size, crc = path.stat().st_size, struct.unpack_from(">I", path.read_bytes(), 17)[0]
    assert batch.as_line() == (
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 7 lastSequence: 8 producerId: 5 producerEpoch: 1"
        " partitionLeaderEpoch: 3 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty"
        f" position: 0 CreateTime: {NOW_MS} size: {size} magic: 2 compresscodec: gzip crc: {crc} isvalid: true"
    )
    assert first.as_line() == (
        f"| offset: 0 CreateTime: {NOW_MS} keySize: 3 valueSize: 1 sequence: 7 headerKeys: [h] key: key payload: v"
    )
    assert second.as_line() == (
        f"| offset: 1 CreateTime: {NOW_MS} keySize: 3 valueSize: -1 sequence: 8 headerKeys: [h] key: key"
    )
    assert rows(path) == [batch]


def test_good_files_have_no_problems(directory: Path) -> None:
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        for path in segment_files(directory, suffix):
            assert problems(path) == []
    assert rows(segment_files(directory, ".index")[0])[0].fields.keys() == {"offset", "position"}
    assert rows(segment_files(directory, ".timeindex")[0])[0].fields.keys() == {"timestamp", "offset"}


def test_a_damaged_batch_is_shown_as_invalid(directory: Path) -> None:
    path = segment_files(directory)[0]
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert rows(path)[0].fields["isvalid"] is False
    assert rows(path)[1].fields["isvalid"] is True


def test_bytes_after_the_last_batch_are_a_problem(directory: Path) -> None:
    path = segment_files(directory)[-1]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"torn")
    assert problems(path) == [f"problem: Found 4 invalid bytes at the end of {path.name}, from position {size}"]


def test_indexes_that_do_not_match_are_problems(directory: Path) -> None:
    index, times = segment_files(directory, ".index")[0], segment_files(directory, ".timeindex")[0]
    offset, position = struct.unpack_from(">ii", index.read_bytes())
    index.write_bytes(struct.pack(">ii", offset + 1, position) + index.read_bytes()[8:])
    assert f"at position {position} the log has a batch that ends with offset {offset}" in problems(index)[0]
    timestamp, relative = struct.unpack_from(">qi", times.read_bytes())
    wrong = struct.pack(">qi", timestamp + 1, relative) + struct.pack(">qi", timestamp, relative + 1) + b"\0"
    times.write_bytes(wrong)
    found = "\n".join(problems(times))
    assert f"Index timestamp: {timestamp + 1}, log timestamp: {timestamp}" in found
    assert "which is not smaller" in found
    assert "is not the last offset of a batch" in found
    assert "1 bytes that are no whole entry" in found


def test_the_small_files_are_shown(tmp_path: Path) -> None:
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    OffsetCheckpoint(checkpoint).write({PARTITION: 7})
    assert rows(checkpoint)[0].as_line() == "topic: flights partition: 0 offset: 7"
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n3 9\n")
    assert rows(epochs)[0].as_line() == "epoch: 3 startOffset: 9"
    write_partition_metadata(tmp_path, UUID(int=7))
    assert rows(tmp_path / "partition.metadata")[1].as_line() == "topic_id: AAAAAAAAAAAAAAAAAAAABw"
    aborted = tmp_path / f"{0:020d}.txnindex"
    aborted.write_bytes(struct.pack(">hqqqq", 0, 1, 2, 3, 4))
    assert rows(aborted)[0].as_line() == "version: 0 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 4"
    aborted.write_bytes(b"\0" * 33)
    assert "no multiple of 34" in problems(aborted)[0]


def test_markers_and_their_index_are_shown_as_kafka_shows_them(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0")
    write(log, b"v", producer=(5, 1, 0))
    end(log, 5, 1, commit=False, coordinator_epoch=9)
    end(log, 5, 1, commit=True, coordinator_epoch=9)
    write(log, b"v", producer=(5, 1, 1))
    log.close()
    (path,) = segment_files(log.directory)
    shown = [row.as_line() for row in rows(path, records=True) if row.kind == "record"]
    assert shown[1] == (
        f"| offset: 1 CreateTime: {NOW_MS} keySize: 4 valueSize: 6 sequence: -1 headerKeys: []"
        " endTxnMarker: ABORT coordinatorEpoch: 9"
    )
    assert shown[2].endswith("endTxnMarker: COMMIT coordinatorEpoch: 9")
    assert rows(path)[1].fields["isControl"] is True
    (snapshot,) = segment_files(log.directory, ".snapshot")
    assert (
        rows(snapshot)[0]
        .as_line()
        .startswith("producerId: 5 producerEpoch: 1 coordinatorEpoch: 9 currentTxnFirstOffset: OptionalLong[3]")
    )
    (index,) = segment_files(log.directory, ".txnindex")
    assert [row.as_line() for row in rows(index)] == [
        "version: 0 producerId: 5 firstOffset: 0 lastOffset: 1 lastStableOffset: 2"
    ]
    index.write_bytes(struct.pack(">hqqqq", 0, 5, 0, 2, 3) + struct.pack(">hqqqq", 0, 5, 0, 1, 2))
    found = problems(index)
    assert "Last offset: 2 is not that of an abort of producer 5" in found[0]
    assert "Last offset: 1 follows 2" in found[1]


def test_a_damaged_snapshot_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.snapshot"
    path.write_bytes(b"\0\1garbage-garbage")
    assert "does not match its CRC" in problems(path)[0]


def test_any_other_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="is no file of a log"):
        dump_file(tmp_path / "notes.txt")
