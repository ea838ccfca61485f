"""Building and reading partition logs in tests, without a broker."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

from ottla_broker.log.appends.append_result import AppendResult
from ottla_broker.log.background import Background, Failed, InlineBackground, Work
from ottla_broker.log.directories.dump import dump_file
from ottla_broker.log.loading.log_loading import LoadRequest
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.segment_file import OpenFiles
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import (
    BATCH_LENGTH_MIN,
    MAGIC_V2,
    RecordBatchHeader,
    iterate_batches,
    pack_header,
)
from ottla_core.wire.records import Record, encode_batch, iterate_records

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("flights", 0)
PRODUCER_EXPIRATION_MS = 86_400_000


class HeldBackground:
    """A background that does nothing until it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Work, Work, Failed]] = []
        self.later: list[Work] = []

    def submit(self, work: Work, *, then: Work, failed: Failed) -> None:
        self.waiting.append((work, then, failed))

    def submit_later(self, delay_ms: int, work: Work) -> None:
        self.later.append(work)

    def run_one(self, error: OSError | None = None) -> None:
        """Do the oldest piece of work, or have it fail."""
        work, then, failed = self.waiting.pop(0)
        if error is not None:
            failed(error)
            return
        work()
        then()


def open_log(
    directory: Path,
    *,
    config: TopicConfig | None = None,
    was_clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    now_ms: int = NOW_MS,
    open_files: OpenFiles | None = None,
    background: Background | None = None,
    topic_id: UUID | None = None,
) -> PartitionLog:
    """Load or begin a log; the high watermark is its end."""
    directory.mkdir(exist_ok=True)
    request = LoadRequest(
        topic_partition=PARTITION,
        directory=directory,
        config=config or TopicConfig(),
        open_files=OpenFiles() if open_files is None else open_files,
        now_ms=now_ms,
        was_clean=was_clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        producer_expiration_ms=PRODUCER_EXPIRATION_MS,
    )
    log = PartitionLog.open(request, topic_id, background or InlineBackground())
    log.high_watermark = log.log_end_offset
    return log


def small_segments(**settings: Any) -> TopicConfig:
    """Settings with which a log of a few hundred bytes has segments and index entries."""
    return replace(TopicConfig(), **{"segment_bytes": 600, "index_interval_bytes": 150, **settings})


def batch_of(
    *values: bytes | None,
    timestamps: Sequence[int] | None = None,
    key: bytes | None = b"key",
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    base_offset: int = 0,
    leader_epoch: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """One batch; `producer` is id, epoch and base sequence."""
    times = timestamps or [NOW_MS] * len(values)
    records = [
        Record(base_offset + delta, times[delta], key, value, (("h", b"v"),)) for delta, value in enumerate(values)
    ]
    return encode_batch(
        records,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        leader_epoch=leader_epoch,
        is_transactional=is_transactional,
    )


def empty_batch(producer: tuple[int, int, int], *, timestamp: int = NOW_MS) -> bytes:
    """A batch that takes one offset and has no records; `producer` is id, epoch and base sequence."""
    producer_id, epoch, sequence = producer
    header = RecordBatchHeader(
        base_offset=0,
        batch_length=BATCH_LENGTH_MIN,
        leader_epoch=-1,
        magic=MAGIC_V2,
        crc=0,
        attributes=0,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=0,
    )
    return pack_header(header, b"")


def append(
    log: PartitionLog, *values: bytes | None, leader_epoch: int = 0, now_ms: int = NOW_MS, **batch: Any
) -> AppendResult:
    """Append one batch and let the high watermark follow."""
    appended = log.append_as_leader(batch_of(*values, **batch), leader_epoch=leader_epoch, now_ms=now_ms)
    log.high_watermark = log.log_end_offset
    return appended


def read_batches(
    log: PartitionLog, offset: int | None = None, *, max_bytes: int = 1 << 20, end_offset: int | None = None
) -> list[tuple[RecordBatchHeader, bytes]]:
    """Read on from an offset to the end, as a consumer does; every CRC is checked."""
    position = log.log_start_offset if offset is None else offset
    end = log.log_end_offset if end_offset is None else end_offset
    batches = []
    while (found := log.read(position, max_bytes=max_bytes, end_offset=end, at_least_one_batch=True)) is not None:
        data = found.read()
        assert len(data) == found.size
        parsed = [(header, bytes(batch)) for header, batch in iterate_batches(data)]
        assert sum(header.size_bytes for header, _ in parsed) == found.size, "a slice is whole batches"
        batches += parsed
        position = parsed[-1][0].next_offset
    return batches


def read_values(log: PartitionLog, offset: int | None = None, **how: Any) -> list[tuple[int, bytes | None]]:
    """Read on from an offset to the end; return offsets and values."""
    return [
        (record.offset, record.value)
        for header, batch in read_batches(log, offset, **how)
        for record in iterate_records(batch, header)
    ]


def problems_in(directory: Path) -> list[str]:
    """What the dump of every file in a partition's directory complains of."""
    return [
        f"{path.name}: {row.as_line()}"
        for path in sorted(directory.iterdir())
        if path.suffix in {".log", ".index", ".timeindex", ".snapshot", ".txnindex"}
        for row in dump_file(path, records=True)
        if row.kind == "problem" or row.fields.get("isvalid") is False
    ]


def segment_files(directory: Path, suffix: str = ".log") -> list[Path]:
    """The files of one kind, oldest first."""
    return sorted(path for path in directory.iterdir() if path.suffix == suffix)


@contextmanager
def failing_fsyncs() -> Iterator[None]:
    """No file can be fsynced meanwhile."""
    with patch("os.fsync", side_effect=OSError(errno.EIO, os.strerror(errno.EIO))):
        yield


def fail(log: PartitionLog) -> None:
    """Has an fsync of a log fail, if nothing of it is done in threads."""
    with failing_fsyncs():
        log._flush.start(log.log_end_offset)
    assert log.failure is not None
