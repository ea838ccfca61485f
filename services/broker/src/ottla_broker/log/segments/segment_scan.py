"""Walking the batches of a segment file from disk: by headers only, or checking every CRC.

`walk_headers` follows headers through whatever region a lookup left to search, reading a chunk at a time.
`scan` is recovery's eye: it checks every CRC and, where bytes are damaged, looks for the next place at which a
batch can be that belongs there, so that damage costs only the records it hit.

Records may themselves hold batches, as when segments are mirrored. In a log's last segment, where a torn batch is
the usual damage, a batch found behind damage is believed only with proof that it was appended by itself.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from crc32c import crc32c

from ottla_broker.log.segments.segment_file import SegmentFile
from ottla_core.errors import CorruptMessage
from ottla_core.wire.record_batch import (
    ATTRIBUTES_OFFSET,
    BATCH_LENGTH_MIN,
    HEADER,
    HEADER_SIZE_BYTES,
    INT32_MAX,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    MAGIC_V2,
    RecordBatchHeader,
)

_WALK_CHUNK_BYTES: Final = 16 * 1024
_SCAN_CHUNK_BYTES: Final = 1024 * 1024
_CANDIDATES_MAX: Final = 1000
"""Batches without proof that are looked at behind one damaged stretch; a record may hold very many."""

_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_MAGIC_BYTE: Final = bytes((MAGIC_V2,))


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """A batch whose CRC is right."""

    position: int
    header: RecordBatchHeader


@dataclass(frozen=True, slots=True)
class DamagedBytes:
    """A stretch of the file that holds no valid batch."""

    position: int
    size_bytes: int


def walk_headers(file: SegmentFile, position: int, end: int) -> Iterator[tuple[int, RecordBatchHeader]]:
    """Yield position and header of each batch from `position` (a batch's start) up to `end`.

    Raises:
        CorruptMessage: something is there that is no batch; the disk has changed what recovery had accepted.
    """
    chunk = b""
    chunk_start = position
    while position < end:
        in_chunk = position - chunk_start
        if in_chunk + HEADER_SIZE_BYTES > len(chunk):
            chunk = os.pread(file.fileno(), min(_WALK_CHUNK_BYTES, end - position), position)
            chunk_start, in_chunk = position, 0
            if len(chunk) < HEADER_SIZE_BYTES:
                raise _damaged(file, position)
        header = RecordBatchHeader._make(HEADER.unpack_from(chunk, in_chunk))
        size = header.size_bytes
        if header.magic != MAGIC_V2 or header.batch_length < BATCH_LENGTH_MIN or size > end - position:
            raise _damaged(file, position)
        yield position, header
        position += size


def last_boundary(file: SegmentFile, position: int, target: int, end: int) -> tuple[int, int | None]:
    """Return the last batch boundary at or before `target`, and the base offset of the batch that starts there.

    Args:
        file: the segment's file.
        position: a boundary at or before `target`.
        target: where to stop, at most `end`.
        end: the end of the file's valid bytes, where no batch starts.

    Raises:
        CorruptMessage: as `walk_headers`.
    """
    chunk = b""
    chunk_start = position
    while position < end:
        in_chunk = position - chunk_start
        if in_chunk + _OFFSET_AND_LENGTH.size > len(chunk):
            # Batches are walked up to the target only, so nothing beyond its header need be read.
            wanted = min(_WALK_CHUNK_BYTES, target - position + HEADER_SIZE_BYTES)
            chunk = os.pread(file.fileno(), wanted, position)
            chunk_start, in_chunk = position, 0
            if len(chunk) < _OFFSET_AND_LENGTH.size:
                raise _damaged(file, position)
        base_offset, length = _OFFSET_AND_LENGTH.unpack_from(chunk, in_chunk)
        if length < BATCH_LENGTH_MIN:
            raise _damaged(file, position)
        if position + length + LOG_OVERHEAD_BYTES > target:
            return position, base_offset
        position += length + LOG_OVERHEAD_BYTES
    return position, None


def _damaged(file: SegmentFile, position: int) -> CorruptMessage:
    return CorruptMessage(f"{file.path} is damaged at position {position}: there should be a record batch")


class _Window:
    """A stretch of the file in memory that moves along as the scan proceeds."""

    __slots__ = ("_data", "_descriptor", "_start")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._start = 0
        self._data = b""

    def view(self, position: int, size: int) -> memoryview:
        """Return up to `size` bytes at `position`; fewer at the file's end. `size` is at most a chunk."""
        offset = position - self._start
        if offset < 0 or offset + size > len(self._data):
            self._data = os.pread(self._descriptor, max(size, _SCAN_CHUNK_BYTES), position)
            self._start, offset = position, 0
        return memoryview(self._data)[offset : offset + size]

    def crc(self, position: int, end: int) -> int:
        """Return the CRC-32C of a range of any size."""
        crc = 0
        while position < end:
            part = self.view(position, min(end - position, _SCAN_CHUNK_BYTES))
            if not part:
                break
            crc = crc32c(part, crc)
            position += len(part)
        return crc


class _Scanner:
    """The state of one scan: what offset may come next, and up to where."""

    def __init__(self, descriptor: int, size: int, base_offset: int, end_offset: int | None) -> None:
        self.window = _Window(descriptor)
        self.size = size
        self.is_last_segment = end_offset is None
        self.next_offset = base_offset
        self.offset_max = (base_offset + INT32_MAX) if end_offset is None else end_offset - 1

    def header_at(self, position: int) -> RecordBatchHeader | None:
        """Return whatever stands where a header would, or None at the end of the file."""
        if self.size - position < HEADER_SIZE_BYTES:
            return None
        view = self.window.view(position, HEADER_SIZE_BYTES)
        return RecordBatchHeader._make(HEADER.unpack_from(view)) if len(view) == HEADER_SIZE_BYTES else None

    def batch_at(self, position: int, offset_min: int | None = None) -> RecordBatchHeader | None:
        """Return the header of the valid batch that starts here and may come next, or None."""
        header = self.header_at(position)
        if header is None:
            return None
        plausible = (
            header.magic == MAGIC_V2
            and BATCH_LENGTH_MIN <= header.batch_length <= self.size - position - LOG_OVERHEAD_BYTES
            and header.base_offset >= (self.next_offset if offset_min is None else offset_min)
            and header.last_offset_delta >= 0
            and header.last_offset <= self.offset_max
        )
        if not plausible:
            return None
        crc = self.window.crc(position + ATTRIBUTES_OFFSET, position + header.size_bytes)
        return header if crc == header.crc else None

    def next_start_after(self, position: int) -> int:
        """Return where the next valid batch starts after a damaged one, or the file's size."""
        declared = self._declared_end(position)
        if declared is not None and self.batch_at(declared) is not None:
            # The damaged batch's own length leads to a good one: what is inside it is its records' business.
            return declared
        for candidate in islice(self._candidates_after(position), _CANDIDATES_MAX):
            if not self.is_last_segment or self._was_appended_itself(candidate, position):
                return candidate
        return self.size

    def _candidates_after(self, position: int) -> Iterator[int]:
        """Yield where valid batches with possible offsets start, be it inside another one."""
        start = position + 1
        while self.size - start >= HEADER_SIZE_BYTES:
            view = self.window.view(start, min(_SCAN_CHUNK_BYTES, self.size - start))
            data = bytes(view)
            found = data.find(_MAGIC_BYTE, MAGIC_OFFSET)
            while found >= 0:
                candidate = start + found - MAGIC_OFFSET
                if self.batch_at(candidate) is not None:
                    yield candidate
                found = data.find(_MAGIC_BYTE, found + 1)
            # The next chunk overlaps, as a header's magic may lie just beyond this one.
            start += max(1, len(data) - MAGIC_OFFSET)

    def _was_appended_itself(self, candidate: int, damaged: int) -> bool:
        """Return whether a valid batch behind damage is one of the log's, and not part of a record's value.

        If the damaged batch still has a header that fits, its CRC tells whether it ends at the candidate: then
        only its length was damaged. Otherwise the damaged batch may be torn, and all that follows its own.
        Without a header, the batches from the candidate on have to lead to the file's end or to a torn batch:
        behind a batch in a record stands at least the record's header count.
        """
        header = self.header_at(damaged)
        if header is not None and header.magic == MAGIC_V2 and header.base_offset == self.next_offset:
            end = damaged + header.size_bytes
            if header.batch_length < BATCH_LENGTH_MIN or candidate < end:
                return self.window.crc(damaged + ATTRIBUTES_OFFSET, candidate) == header.crc
        position, offset = candidate, self.next_offset
        while (found := self.batch_at(position, offset)) is not None:
            position, offset = position + found.size_bytes, found.next_offset
        return position == self.size or self._starts_torn_batch(position, offset)

    def _starts_torn_batch(self, position: int, offset: int) -> bool:
        """Return whether the file's remainder begins as the batch that gets `offset`."""
        begin = bytes(self.window.view(position, MAGIC_OFFSET + 1))
        return (
            len(begin) > MAGIC_OFFSET and begin[MAGIC_OFFSET] == MAGIC_V2 and begin[:8] == offset.to_bytes(8, "big")
        )

    def _declared_end(self, position: int) -> int | None:
        if self.size - position < HEADER_SIZE_BYTES:
            return None
        length = int.from_bytes(self.window.view(position + 8, 4), "big", signed=True)
        end = position + LOG_OVERHEAD_BYTES + length
        return end if length >= BATCH_LENGTH_MIN and end < self.size else None


def scan(descriptor: int, size: int, base_offset: int, end_offset: int | None) -> Iterator[FoundBatch | DamagedBytes]:
    """Yield all valid batches of a segment and the damaged stretches between them, in order.

    Args:
        descriptor: the open segment file.
        size: how many of its bytes to look at.
        base_offset: the segment's base offset; no batch may start below it.
        end_offset: base offset of the next segment, which no batch may reach; None for the last segment.
    """
    scanner = _Scanner(descriptor, size, base_offset, end_offset)
    position = 0
    while position < size:
        header = scanner.batch_at(position)
        if header is None:
            following = scanner.next_start_after(position)
            yield DamagedBytes(position, following - position)
            position = following
        else:
            yield FoundBatch(position, header)
            scanner.next_offset = header.next_offset
            position += header.size_bytes
