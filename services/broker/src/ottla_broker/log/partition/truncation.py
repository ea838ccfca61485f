"""Truncations of a log: what has to be on the disk before one, and what after it.

What was cut off must not come back after a crash, and whatever the disk says of it must not be believed. So:

1. **Before** anything is cut, the checkpoints of the log directory stop at the offset: recovery point, high
   watermark, log start and first dirty offset. A crash from here on has everything behind that offset checked and
   read anew, be the cut done by then or not. The producers as of the offset and the largest timestamp below it are
   read, too, in a thread, since that can take seconds.
2. **The cut** itself is short and done on the event loop, by `PartitionLog`, if it is still wanted by then.
3. **After** it, an fsync covers the files that were cut, the names of those that were removed, and the leader epochs.
   Until then nothing is fetched behind the cut: a power failure could bring back segments of the former history
   behind records of the new one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ottla_broker.log.flushing.flush import LogFlush
from ottla_broker.log.producers.producer_loading import read_producers
from ottla_broker.log.producers.producer_state import ProducerStates
from ottla_broker.log.segments.segment import LogSegment
from ottla_broker.log.segments.segment_file import OpenFiles
from ottla_broker.log.segments.segment_list import SegmentList
from ottla_broker.log.segments.time_index import TimestampOffset
from ottla_core.errors import KafkaStorageError
from ottla_core.topic_partition import TopicPartition

READINGS_MAX: Final = 2
"""Logs of one broker whose producers are read at the same time; each takes its part of the interpreter."""


class Truncatable(Protocol):
    """What a truncation needs of a log."""

    topic_partition: TopicPartition
    directory: Path
    segments: SegmentList
    log_end_offset: int


class TruncationContext:
    """What the logs of one store share when they are truncated.

    Attributes:
        write_checkpoints: writes those of the directory that a partition's log lives in.
        readings: bounds how many logs' producers are read at a time.
    """

    def __init__(self, write_checkpoints: Callable[[TopicPartition], Awaitable[None]]) -> None:
        self.write_checkpoints = write_checkpoints
        self.readings = asyncio.Semaphore(READINGS_MAX)


@dataclass(slots=True, eq=False)
class _Announced:
    """A truncation that is about to be done."""

    offset: int
    directory: Path
    found: "FoundBelow | None" = None


@dataclass(frozen=True, slots=True)
class FoundBelow:
    """What a log has to know of the batches below a cut.

    Attributes:
        producers: as of the offset.
        largest: the largest timestamp below it in the segment that is cut.
    """

    producers: ProducerStates
    largest: TimestampOffset


class LogTruncation:
    """The truncations of one log.

    Attributes:
        context: set by the store that holds the log; without one there are no checkpoints to write.
    """

    __slots__ = ("_announced", "_flush", "_log", "context")

    def __init__(self, log: Truncatable, flush: LogFlush) -> None:
        self.context: TruncationContext | None = None
        self._log = log
        self._flush = flush
        self._announced: list[_Announced] = []

    def checkpointed(self, offset: int) -> int:
        """Return what a checkpoint may say in place of an offset: nothing beyond where the log is about to end."""
        return min(offset, *(announced.offset for announced in self._announced)) if self._announced else offset

    @asynccontextmanager
    async def prepared(self, offset: int) -> AsyncIterator[None]:
        """Do what comes before a truncation; the body may do it then, without an await, if it is still wanted.

        Raises:
            KafkaStorageError: the disk refuses; nothing must be cut.
            NotLeaderOrFollower: the log is no more.
            CorruptMessage: a batch below the offset is damaged.
        """
        log = self._log
        announced = _Announced(offset, log.directory)
        self._announced.append(announced)
        try:
            if offset < log.log_end_offset:
                await self._prepare(announced)
            yield
        finally:
            self._announced.remove(announced)

    async def _prepare(self, announced: _Announced) -> None:
        log = self._log
        try:
            while True:
                self._flush.check_open()
                announced.directory = log.directory
                await self._write_checkpoints()
                if announced.offset > log.segments[0].base_offset:
                    announced.found = await self._find_below(announced.offset)
                # The log may have moved to another log directory meanwhile, whose checkpoints are to be written then.
                if announced.directory == log.directory:
                    return
        except OSError as error:
            raise KafkaStorageError(
                f"Cannot prepare to truncate {log.topic_partition} in {log.directory.parent}:"
                f" {error.strerror or error}"
            ) from error

    async def _write_checkpoints(self) -> None:
        if self.context is not None:
            await self.context.write_checkpoints(self._log.topic_partition)

    async def _find_below(self, offset: int) -> FoundBelow:
        log = self._log
        directory, end_offset = log.directory, log.log_end_offset
        sizes = [
            (segment.base_offset, segment.size_bytes) for segment in log.segments if segment.base_offset <= offset
        ]

        def read() -> FoundBelow:
            return _find_in_files(log.topic_partition, directory, sizes, offset, end_offset)

        if self.context is None:
            return await asyncio.to_thread(read)
        async with self.context.readings:
            return await asyncio.to_thread(read)

    def found_below(self, offset: int) -> FoundBelow | None:
        """Return what was read for a truncation to an offset, or None; it is given once."""
        for announced in self._announced:
            if announced.offset == offset and announced.directory == self._log.directory:
                found, announced.found = announced.found, None
                return found
        return None

    @property
    def is_settled(self) -> bool:
        """Whether what was cut cannot come back; until then nothing may be fetched from the new end."""
        return self._flush.is_settled

    async def settled(self) -> None:
        """Return when what was cut cannot come back.

        Raises:
            KafkaStorageError: the fsync failed, or one before.
            NotLeaderOrFollower: the log is no more.
        """
        while not self.is_settled:  # a flush that was under way may have begun before the cut
            await self._flush.wait_for_one()


def _find_in_files(
    topic_partition: TopicPartition, directory: Path, sizes: list[tuple[int, int]], offset: int, log_end_offset: int
) -> FoundBelow:
    """Read in a thread, from files opened for that alone: the log's own segments belong to the loop."""
    open_files = OpenFiles(READINGS_MAX)
    segments = SegmentList(
        LogSegment(directory, base_offset, size_bytes=size, open_files=open_files, created_ms=0)
        for base_offset, size in sizes
    )
    return FoundBelow(
        read_producers(topic_partition, directory, segments, offset=offset, log_end_offset=log_end_offset),
        segments.active.largest_timestamp_below(offset),
    )
