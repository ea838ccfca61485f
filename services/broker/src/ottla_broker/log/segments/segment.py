"""A segment: one `.log` file with its offset index and time index, and its aborted transactions if it has any.

A log is a row of segments, of which only the last, the active one, grows. This class knows bytes and batches;
which segment to ask, and which offsets may be seen, is the log's business. Whatever is kept here about
timestamps is kept as Kafka keeps it, so that indexes come out the same. Source: Kafka's LogSegment.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla_broker.log.files.checkpoint_file import TEMPORARY_SUFFIX, sync_directory, sync_file
from ottla_broker.log.segments.index_file import INT32_MAX
from ottla_broker.log.segments.offset_index import OffsetIndex
from ottla_broker.log.segments.segment_file import OpenFiles, SegmentFile, ValidRange
from ottla_broker.log.segments.segment_scan import walk_headers
from ottla_broker.log.segments.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from ottla_broker.log.segments.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    encode_transaction_index,
)
from ottla_core.errors import CorruptMessage
from ottla_core.wire.record_batch import Buffer, RecordBatchHeader

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    """Return the path of one of a segment's files."""
    return directory / f"{base_offset:020d}{suffix}"


def suffixed(path: Path, suffix: str) -> Path:
    """Return the path with one more suffix behind its name."""
    return path.with_name(path.name + suffix)


def _create_file(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))


@dataclass(frozen=True, slots=True)
class SegmentCut:
    """What is left of a segment that is cut.

    It is found, and the file opened, before anything is cut: for want of a file descriptor no cut stops half-way.

    Attributes:
        file: the `.log` file.
        position: its size afterwards, in bytes.
        offset_entries: entries left in the offset index.
        time_entries: entries left in the time index.
        transaction_entries: entries left in the transaction index.
        largest: the largest timestamp that is left.
    """

    file: SegmentFile
    position: int
    offset_entries: int
    time_entries: int
    transaction_entries: int
    largest: TimestampOffset


class LogSegment:
    """One segment of a log.

    Attributes:
        base_offset: smallest offset it may hold; also its files' name.
        size_bytes: bytes of whole batches in the file; what lies beyond is never read.
        offset_index: where batches are.
        time_index: when they were.
        transaction_index: the aborted transactions whose markers it has.
        created_ms: when the segment was created or opened, for rolling without timestamps.
        roll_jitter_ms: how much earlier than `segment.ms` this segment rolls.
    """

    __slots__ = (
        "_bytes_since_index_entry", "_directory", "_file", "_first_timestamp", "_is_retired", "_largest",
        "_open_files", "_tail_is_dirty", "_valid", "base_offset", "created_ms", "offset_index", "roll_jitter_ms",
        "size_bytes", "time_index", "transaction_index",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        *,
        size_bytes: int,
        open_files: OpenFiles,
        created_ms: int,
        roll_jitter_ms: int = 0,
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.offset_index = OffsetIndex.open(segment_path(directory, base_offset, INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex.open(segment_path(directory, base_offset, TIME_INDEX_SUFFIX), base_offset)
        self.transaction_index = TransactionIndex.open(
            segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX), base_offset
        )
        self._directory = directory
        self._file: SegmentFile | None = None
        self._is_retired = False
        self._open_files = open_files
        self._bytes_since_index_entry = 0
        self._first_timestamp: int | None = None
        self._largest: TimestampOffset | None = None
        self._tail_is_dirty = False
        self._valid = ValidRange()

    @classmethod
    def create(
        cls,
        directory: Path,
        base_offset: int,
        *,
        open_files: OpenFiles,
        created_ms: int,
        roll_jitter_ms: int = 0,
    ) -> "LogSegment":
        """Create the files of an empty segment, in place of any that are there.

        The `.log` comes last, because it makes the segment. Left over from a failure, it would be taken at the next
        start for the end of the segment before it, and what had been appended there since would be lost.

        Raises:
            OSError: there is no such segment; indexes that are left over are removed at the next start.
        """
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            _create_file(segment_path(directory, base_offset, suffix))
        # Aborts of a former segment would hide records of transactions that this one's batches commit.
        segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX).unlink(missing_ok=True)
        segment = cls(
            directory,
            base_offset,
            size_bytes=0,
            open_files=open_files,
            created_ms=created_ms,
            roll_jitter_ms=roll_jitter_ms,
        )
        _create_file(segment_path(directory, base_offset, LOG_SUFFIX))
        return segment

    # Files

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        """Return the path of one of the segment's files."""
        return segment_path(self._directory, self.base_offset, suffix)

    def file(self) -> SegmentFile:
        """Return the segment's file, opened if need be; raises OSError, as always after `retire`."""
        file = self._file
        if file is None:
            if self._is_retired:
                raise OSError(errno.EBADF, "the log was deleted or closed", str(self.path()))
            file = self._file = SegmentFile(self.path(), self._valid)
            self._open_files.opened(self)
        return file

    def release_file(self) -> None:
        """Let go of the file and cached index blocks; the next use opens it again."""
        self._file = None
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.release()

    def close(self) -> None:
        """Let go of the file until its next use."""
        self._open_files.closed(self)
        self.release_file()

    def retire(self) -> None:
        """Let go of the file for good: what has its path later may be another log's."""
        self._is_retired = True
        self.close()

    def relocate(self, directory: Path) -> None:
        """Go on with the same files in another directory, where somebody has put them."""
        self.close()
        self._directory = directory
        self.offset_index.path = self.path(INDEX_SUFFIX)
        self.time_index.path = self.path(TIME_INDEX_SUFFIX)
        self.transaction_index.path = self.path(TRANSACTION_INDEX_SUFFIX)

    # Appending

    def append(
        self, buffers: Sequence[Buffer], size: int, last_offset: int, max_timestamp: int, interval_bytes: int
    ) -> None:
        """Write whole batches at the end and keep the indexes.

        Args:
            buffers: the parts to write, together `size` bytes.
            size: their length.
            last_offset: the last batch's last offset.
            max_timestamp: the largest timestamp, which is the last batch's or that of a single batch.
            interval_bytes: `index.interval.bytes`.

        Raises:
            OSError: nothing was appended; the file is as long as before.
        """
        position = self._write(buffers, size)
        self._note_batch(position, size, last_offset, max_timestamp, interval_bytes)

    def append_run(self, batches: memoryview, headers: Sequence[RecordBatchHeader], interval_bytes: int) -> None:
        """Write consecutive batches at once; the indexes come out as if they were appended one by one.

        Args:
            batches: all of them.
            headers: one of each.
            interval_bytes: `index.interval.bytes`.

        Raises:
            OSError: nothing was appended; the file is as long as before.
        """
        position = self._write((batches,), len(batches))
        for header in headers:
            size = header.size_bytes
            self._note_batch(position, size, header.last_offset, header.max_timestamp, interval_bytes)
            position += size

    def _write(self, buffers: Sequence[Buffer], size: int) -> int:
        """Write at the end, and return where that was."""
        position = self.size_bytes
        file = self._file or self.file()
        if self._tail_is_dirty:
            self._cut_tail(file)
        try:
            written = os.pwritev(file.fileno(), buffers, position)
            if written != size:
                self._write_rest(file, b"".join(buffers), written, position)
        except OSError:
            self._cut_back(file)
            raise
        self.size_bytes = position + size
        return position

    def _note_batch(
        self, position: int, size: int, last_offset: int, max_timestamp: int, interval_bytes: int
    ) -> None:
        """Keep timestamps and indexes after a batch was written."""
        if position == 0:
            self._first_timestamp = max_timestamp
        largest = self._largest or self.largest_timestamp()
        if max_timestamp > largest.timestamp:
            self._largest = largest = TimestampOffset(max_timestamp, last_offset)
        if self._bytes_since_index_entry > interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(*largest)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size

    @staticmethod
    def _write_rest(file: SegmentFile, data: bytes, written: int, position: int) -> None:
        """Go on after a short write: the next one either writes more or names the reason."""
        view = memoryview(data)
        while written < len(data):
            written += os.pwrite(file.fileno(), view[written:], position + written)

    def _cut_back(self, file: SegmentFile) -> None:
        """Remove what a failed write left; if even that fails, it comes before all else that is done to the end."""
        self._tail_is_dirty = True
        with suppress(OSError):
            self._cut_tail(file)

    def _cut_tail(self, file: SegmentFile) -> None:
        os.ftruncate(file.fileno(), self.size_bytes)
        self._tail_is_dirty = False

    # Rolling

    def waited_ms(self, now_ms: int, timestamp: int) -> int:
        """Return how long the segment has been filling: from its first batch's timestamp to `timestamp`."""
        first_timestamp = self.first_timestamp()
        return timestamp - first_timestamp if first_timestamp >= 0 else now_ms - self.created_ms

    def first_timestamp(self) -> int:
        """Return the first batch's largest timestamp, or -1 if there is no batch; raises OSError."""
        if self._first_timestamp is None and self.size_bytes:
            for _, header in self.walk(0):
                self._first_timestamp = header.max_timestamp
                break
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def become_inactive(self) -> None:
        """Finish the indexes: a last time index entry tells the segment's largest timestamp. Raises OSError.

        The file ends where its batches do from now on, as a start takes the size of a full segment from the disk.
        """
        if self._tail_is_dirty:
            self._cut_tail(self.file())
        self.time_index.maybe_append(*self.largest_timestamp())
        self.write_indexes()

    def write_indexes(self) -> None:
        """Write pending index entries; raises OSError."""
        self.offset_index.write_pending()
        self.time_index.write_pending()
        self.transaction_index.write_pending()

    def replace_transaction_index(self, entries: Sequence[AbortedTransaction]) -> None:
        """Have a transaction index with these entries, or none if there are none; blocks and raises OSError."""
        path = self.path(TRANSACTION_INDEX_SUFFIX)
        if entries:
            temporary = suffixed(path, TEMPORARY_SUFFIX)
            temporary.write_bytes(encode_transaction_index(entries))
            sync_file(temporary)
            temporary.replace(path)
            sync_directory(path.parent)
        else:
            path.unlink(missing_ok=True)
        self.transaction_index = TransactionIndex.open(path, self.base_offset)

    # Looking up

    def walk(self, position: int) -> Iterator[tuple[int, RecordBatchHeader]]:
        """Yield position and header of each batch from `position`, which must be a batch's start.

        Raises:
            CorruptMessage: something is there that is no batch.
        """
        return walk_headers(self.file(), position, self.size_bytes) if position < self.size_bytes else iter(())

    def find_batch(self, offset: int) -> tuple[int, RecordBatchHeader] | None:
        """Return position and header of the first batch whose last offset is at least `offset`, or None."""
        for position, header in self.walk(self.offset_index.position_for_offset(offset)):
            if header.last_offset >= offset:
                return position, header
        return None

    def offset_after(self, position: int) -> int | None:
        """Return an offset that no batch before a position reaches, some batches behind it; None if none is known."""
        index = self.offset_index
        number = index.last_number_at_most(position - 1, 1) + 1
        return self.base_offset + index.entry(number)[0] if number < index.entry_count else None

    def last_header(self) -> RecordBatchHeader | None:
        """Return the header of the last batch, or None; raises OSError and CorruptMessage."""
        last = None
        for _, header in self.walk(self.offset_index.position_for_offset(self.base_offset + INT32_MAX)):
            last = header
        return last

    def largest_timestamp(self) -> TimestampOffset:
        """Return the largest timestamp and the last offset of its batch; timestamp -1 if there is none."""
        if self._largest is None:
            self._largest = self._read_largest_timestamp(scan_tail=False)
        return self._largest

    def load_tail(self) -> tuple[int, int]:
        """Read what lies after the last index entries, as only the active segment has to.

        Returns:
            The offset after the last batch, and the position after it, which is the file's size unless the
            file ends in something that is no batch.
        """
        next_offset = self.base_offset
        start = end = self.offset_index.position_for_offset(self.base_offset + INT32_MAX)
        with suppress(CorruptMessage):  # the caller sees that the end is not the file's
            for position, header in self.walk(start):
                next_offset = header.next_offset
                end = position + header.size_bytes
            self._largest = self._read_largest_timestamp(scan_tail=True)
        self._bytes_since_index_entry = end - start
        return next_offset, end

    def _read_largest_timestamp(self, *, scan_tail: bool) -> TimestampOffset:
        largest = self.time_index.last()
        if scan_tail:
            for _, header in self.walk(self.offset_index.position_for_offset(largest.offset)):
                if header.max_timestamp > largest.timestamp:
                    largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    def retention_timestamp_ms(self) -> int:
        """Return the timestamp that retention goes by: the largest record's, or else the file's."""
        largest = self.largest_timestamp()
        if largest.timestamp >= 0:
            return largest.timestamp
        return self.modified_ms()

    def modified_ms(self) -> int:
        """Return when the file was written last; compaction keeps that time. Raises OSError."""
        return int(self.path().stat().st_mtime * 1000)

    # Cutting and removing

    def largest_timestamp_below(self, offset: int) -> TimestampOffset:
        """Return the largest timestamp of the batches below `offset`; may walk the whole segment. Raises OSError."""
        largest = self.time_index.last_below(offset)
        for _, header in self.walk(self.offset_index.position_for_offset(largest.offset)):
            if header.last_offset >= offset:
                break
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    def plan_cut(self, offset: int, largest: TimestampOffset | None = None) -> SegmentCut:
        """Find out what is left when all batches that reach `offset` or beyond are removed; raises OSError.

        Args:
            offset: where to cut.
            largest: what `largest_timestamp_below` says, if that is known already.
        """
        found = self.find_batch(offset)
        return SegmentCut(
            file=self.file(),
            position=self.size_bytes if found is None else found[0],
            offset_entries=self.offset_index.count_below(offset),
            time_entries=self.time_index.count_below(offset),
            transaction_entries=self.transaction_index.count_below(offset),
            largest=largest or self.largest_timestamp_below(offset),
        )

    def cut(self, planned: SegmentCut) -> None:
        """Remove what a plan leaves nothing of; raises OSError."""
        self.offset_index.truncate_to_count(planned.offset_entries)
        self.time_index.truncate_to_count(planned.time_entries)
        self.transaction_index.truncate_to_count(planned.transaction_entries)
        if planned.position < self.size_bytes:
            self._cut_file(planned.file, planned.position)
        if self.size_bytes == 0:
            self._first_timestamp = None
        self._bytes_since_index_entry = 0
        self._largest = planned.largest

    def _cut_file(self, file: SegmentFile, position: int) -> None:
        """Cut the file; who was given more of it must not take what is written there later for the same."""
        os.ftruncate(file.fileno(), position)
        self.size_bytes = position
        self._valid = self._valid.cut_at(position)
        self.close()

    def mark_deleted(self) -> list[Path]:
        """Rename the files to `*.deleted` and return their new paths; readers keep what they have open.

        Once the `.log` is renamed there is no such segment any more. Other files that keep their names are removed at
        the next start.

        Raises:
            OSError: nothing was renamed.
        """
        self.close()
        renamed = []
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(suffix)
            target = suffixed(path, DELETED_SUFFIX)
            try:
                path.rename(target)
            except FileNotFoundError:
                continue
            except OSError:
                if suffix == LOG_SUFFIX:
                    raise
                continue
            renamed.append(target)
        return renamed

    def __repr__(self) -> str:
        return f"LogSegment({self.path()}, size_bytes={self.size_bytes})"
