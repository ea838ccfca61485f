"""One round of compaction, from segment files to new segment files: what the cleaning process does.

A job says everything there is to know, so that the work needs nothing of the broker. It first takes in the keys of
the dirty part, as far as the map has room for them; what is beyond waits for the next round. Then it goes through
all segments from the log's beginning, group by group, and writes what is left of each group to `*.cleaned` files,
which are fsynced. Putting them into place is the log's business (`segment_swap.py`).

The segments are inactive, so nobody changes them; should they go away, reading fails and the round with it. Every
CRC is checked, since a batch that is written anew would otherwise get a right CRC over wrong bytes.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from ottla_broker.log.compaction.batch_filter import BatchFilter, FilterRules
from ottla_broker.log.compaction.cleaned_transactions import AbortedRange, CleanedTransactions
from ottla_broker.log.compaction.compaction import CompactionSegment, group_segments
from ottla_broker.log.compaction.offset_map import OffsetMap
from ottla_broker.log.segments.index_building import IndexBuilder
from ottla_broker.log.segments.index_file import INT32_MAX
from ottla_broker.log.segments.offset_index import OffsetIndex
from ottla_broker.log.segments.segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
    suffixed,
)
from ottla_broker.log.segments.transaction_index import (
    AbortedTransaction,
    encode_transaction_index,
    read_transaction_index,
)
from ottla_core.errors import CorruptMessage, KafkaError
from ottla_core.wire.record_batch import (
    BATCH_LENGTH_MIN,
    HEADER,
    HEADER_SIZE_BYTES,
    MAGIC_V2,
    Buffer,
    RecordBatchHeader,
    crc_is_valid,
)
from ottla_core.wire.record_walk import walk_records
from ottla_core.wire.records import records_section

_READ_BYTES_MIN: Final = 64 * 1024


class CleaningImpossible(KafkaError):
    """The log cannot be compacted with the present settings."""


class Pace(Protocol):
    """Holds the work back, and stops it."""

    def spent(self, size_bytes: int) -> None:
        """Take note of bytes read or written; waits as long as they have to take."""


class NoPace:
    """Work that goes as fast as it can."""

    def spent(self, size_bytes: int) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningJob:
    """Everything that a round needs.

    Attributes:
        directory: the partition's directory.
        segments: the segments up to the round's end, from the log's first.
        first_dirty_offset: where the dirty part begins.
        end_offset: where the round ends: the base offset of the segment after these.
        now_ms: the clock.
        delete_retention_ms, segment_bytes, segment_index_bytes, index_interval_bytes: the topic's settings.
        last_offsets: the last offset of each active producer.
        last_markers: the epoch of each active producer of which there is nothing but a marker since its epoch began.
        aborted_beyond: the aborted transactions that begin before the round's end and end behind it.
        map_bytes: the memory of the map of keys.
        map_load_factor: the share of it that may be used.
        buffer_bytes: how much is read and written at a time.
        bytes_per_second: the most to read and write, or None.
    """

    directory: str
    segments: Sequence[CompactionSegment]
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    last_offsets: dict[int, int]
    last_markers: dict[int, int]
    aborted_beyond: Sequence[AbortedRange]
    map_bytes: int
    map_load_factor: float
    buffer_bytes: int
    bytes_per_second: float | None = None

    def to_json(self) -> str:
        """Return the job as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "CleaningJob":
        """Return the job of a line."""
        fields = json.loads(text)
        fields["segments"] = [CompactionSegment(**segment) for segment in fields["segments"]]
        for name in ("last_offsets", "last_markers"):
            fields[name] = {int(producer): value for producer, value in fields[name].items()}
        fields["aborted_beyond"] = [AbortedRange(*entry) for entry in fields["aborted_beyond"]]
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedKeys:
    """The keys are taken in.

    Attributes:
        end_offset: the round goes up to here: the job's end, unless the map was full before.
        keys: how many there are.
        read_bytes: how much was read for them.
    """

    end_offset: int
    keys: int
    read_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedSegment:
    """A group of segments has become one, whose files wait to be swapped in.

    Attributes:
        base_offset: the first segment's and the new one's.
        replaced_count: how many segments it replaces.
        size_bytes: its size.
        read_bytes: the size of those it replaces.
        records_read, records_kept: counts.
    """

    base_offset: int
    replaced_count: int
    size_bytes: int
    read_bytes: int
    records_read: int
    records_kept: int


def clean(job: CleaningJob, pace: Pace) -> Iterator[MappedKeys | CleanedSegment]:
    """Do the job; yield once when the keys are known, then for each segment that waits to be swapped in.

    Raises:
        CleaningImpossible: the map has no room for a single batch's keys, or a segment would grow too large.
        CorruptMessage, InvalidRecord, UnsupportedCompressionType: a batch is damaged.
        OSError: the disk failed, or a segment is gone.
    """
    directory = Path(job.directory)
    transactions = CleanedTransactions([*_aborted_ranges(directory, job.segments), *job.aborted_beyond])
    dirty_records_max = job.end_offset - job.first_dirty_offset
    newest = OffsetMap(job.map_bytes, job.map_load_factor, dirty_records_max)
    mapped_end, read_bytes = _map_keys(job, newest, transactions, pace)
    yield MappedKeys(end_offset=mapped_end, keys=newest.size, read_bytes=read_bytes)
    rules = FilterRules(
        newest=newest,
        mapped_end=mapped_end,
        end_offset=job.end_offset,
        now_ms=job.now_ms,
        delete_retention_ms=job.delete_retention_ms,
        last_offsets=job.last_offsets,
        last_markers=job.last_markers,
    )
    groups = group_segments(
        [segment for segment in job.segments if segment.base_offset < mapped_end],
        end_offset=job.end_offset,
        segment_bytes=job.segment_bytes,
        index_bytes=job.segment_index_bytes,
    )
    for group in groups:
        yield _clean_group(job, group, BatchFilter(rules, transactions), pace)


# Taking in the keys


def _map_keys(job: CleaningJob, newest: OffsetMap, transactions: CleanedTransactions, pace: Pace) -> tuple[int, int]:
    """Fill the map from the dirty part; return where the known keys end, and the bytes read."""
    mapped_end = job.first_dirty_offset
    read_bytes = 0
    end_offsets = [segment.base_offset for segment in job.segments[1:]] + [job.end_offset]
    for segment, end_offset in zip(job.segments, end_offsets, strict=True):
        if end_offset <= job.first_dirty_offset:
            continue
        position = 0
        if segment.base_offset < job.first_dirty_offset:
            index = OffsetIndex.open(_path(job, segment, INDEX_SUFFIX), segment.base_offset)
            position = index.position_for_offset(job.first_dirty_offset)
        for header, batch in _read_batches(_path(job, segment, LOG_SUFFIX), segment.size_bytes, job, pace, position):
            read_bytes += header.size_bytes
            if header.last_offset < job.first_dirty_offset or header.is_control or transactions.aborted(header):
                continue
            if not _map_batch(header, batch, newest, job.first_dirty_offset):
                if mapped_end == job.first_dirty_offset:
                    raise CleaningImpossible(
                        f"The batch at offset {header.base_offset} in {job.directory} has more keys than the"
                        f" {newest.capacity} for which log.cleaner.dedupe.buffer.size leaves room"
                    )
                return mapped_end, read_bytes
            mapped_end = header.next_offset
        mapped_end = end_offset
    return mapped_end, read_bytes


def _map_batch(header: RecordBatchHeader, batch: memoryview, newest: OffsetMap, first_offset: int) -> bool:
    """Put a batch's keys into the map; return whether there was room for all."""
    put = newest.put
    for _, _, offset, key, _ in walk_records(records_section(batch, header), header):
        if key is not None and offset >= first_offset and not put(key, offset):
            return False
    return True


def _aborted_ranges(directory: Path, segments: Sequence[CompactionSegment]) -> Iterator[AbortedRange]:
    """Yield the aborted transactions that end in these segments."""
    for segment in segments:
        with suppress(FileNotFoundError):
            path = segment_path(directory, segment.base_offset, TRANSACTION_INDEX_SUFFIX)
            for entry in read_transaction_index(path):
                yield AbortedRange(*entry[1:])


# Reading


def _path(job: CleaningJob, segment: CompactionSegment, suffix: str) -> Path:
    return segment_path(Path(job.directory), segment.base_offset, suffix)


def _read_batches(
    path: Path, size: int, job: CleaningJob, pace: Pace, position: int = 0
) -> Iterator[tuple[RecordBatchHeader, memoryview]]:
    """Yield the batches of a segment from a batch's start, each with a right CRC."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        wanted = read_bytes = max(_READ_BYTES_MIN, job.buffer_bytes // 2)
        while position < size:
            chunk = memoryview(os.pread(descriptor, min(wanted, size - position), position))
            start = 0
            while len(chunk) - start >= HEADER_SIZE_BYTES:
                header = RecordBatchHeader._make(HEADER.unpack_from(chunk, start))
                if header.magic != MAGIC_V2 or header.batch_length < BATCH_LENGTH_MIN:
                    raise CorruptMessage(
                        f"{path} is damaged at position {position + start}: no record batch is there"
                    )
                end = start + header.size_bytes
                if end > len(chunk):
                    break
                batch = chunk[start:end]
                if not crc_is_valid(batch, header):
                    raise CorruptMessage(f"The batch at position {position + start} of {path} does not match its CRC")
                yield header, batch
                start = end
            if start == 0 and (len(chunk) < HEADER_SIZE_BYTES or wanted >= header.size_bytes):
                raise CorruptMessage(f"{path} ends within the batch at position {position}")
            # A batch that is larger than a chunk is read by itself.
            wanted = read_bytes if start else header.size_bytes
            position += start
            pace.spent(start)
    finally:
        os.close(descriptor)


# Writing


def _clean_group(
    job: CleaningJob, group: Sequence[CompactionSegment], batches: BatchFilter, pace: Pace
) -> CleanedSegment:
    """Write what is left of a group of segments."""
    cleaned = _CleanedFiles(job, group[0].base_offset, pace)
    try:
        for segment in group:
            for header, batch in _read_batches(_path(job, segment, LOG_SUFFIX), segment.size_bytes, job, pace):
                left = batches.left_of(header, batch)
                if left is batch:
                    cleaned.append(header, batch)
                elif left is not None:
                    cleaned.append(RecordBatchHeader._make(HEADER.unpack_from(left)), left)
        cleaned.finish(group, batches.transactions.take_kept_aborts())
    finally:
        cleaned.close()
    return CleanedSegment(
        base_offset=group[0].base_offset,
        replaced_count=len(group),
        size_bytes=cleaned.size_bytes,
        read_bytes=sum(segment.size_bytes for segment in group),
        records_read=batches.records_read,
        records_kept=batches.records_kept,
    )


class _CleanedFiles:
    """The files of one new segment under way.

    Attributes:
        size_bytes: the size of its batches.
    """

    def __init__(self, job: CleaningJob, base_offset: int, pace: Pace) -> None:
        self.size_bytes = 0
        self._job = job
        self._pace = pace
        self._log_path = segment_path(Path(job.directory), base_offset, LOG_SUFFIX)
        self._indexes = IndexBuilder(
            self._new_path(INDEX_SUFFIX), self._new_path(TIME_INDEX_SUFFIX), base_offset, job.index_interval_bytes
        )
        self._waiting: list[Buffer] = []
        self._waiting_bytes = 0
        # Without aborts none is written, and one that a former round could not remove would be swapped in.
        self._new_path(TRANSACTION_INDEX_SUFFIX).unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(self._new_path(LOG_SUFFIX), flags, 0o644)

    def _new_path(self, suffix: str) -> Path:
        return suffixed(self._log_path.with_suffix(suffix), CLEANED_SUFFIX)

    def append(self, header: RecordBatchHeader, batch: Buffer) -> None:
        """Add a batch; it may be written later."""
        if self.size_bytes > INT32_MAX - len(batch):
            raise CleaningImpossible(f"{self._log_path} would exceed 2 GiB; lower the topic's segment.bytes")
        self._indexes.add(header)
        self._waiting.append(batch)
        self._waiting_bytes += len(batch)
        self.size_bytes += len(batch)
        if self._waiting_bytes >= self._job.buffer_bytes // 2:
            self._write()

    def _write(self) -> None:
        data = memoryview(b"".join(self._waiting))
        self._waiting.clear()
        self._waiting_bytes = 0
        self._pace.spent(len(data))
        while data:
            data = data[os.write(self._descriptor, data) :]

    def finish(self, group: Sequence[CompactionSegment], aborts: Sequence[AbortedRange]) -> None:
        """Make the files durable, with a transaction index of these aborts if there are any.

        The time of the last of the old ones stays, as retention may go by it.
        """
        self._write()
        self._indexes.finish()
        paths = [self._new_path(suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
        if aborts:
            paths.append(self._new_path(TRANSACTION_INDEX_SUFFIX))
            paths[-1].write_bytes(encode_transaction_index(AbortedTransaction(0, *entry) for entry in aborts))
        old = _path(self._job, group[-1], LOG_SUFFIX).stat()
        os.utime(self._descriptor, ns=(old.st_atime_ns, old.st_mtime_ns))
        os.fsync(self._descriptor)
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
