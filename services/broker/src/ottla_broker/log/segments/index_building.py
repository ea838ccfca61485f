"""Building both indexes of a segment from its batches, in order: for recovery and for compaction.

The entries come out as if the batches had been appended one by one.
"""

from pathlib import Path

from ottla_broker.log.segments.offset_index import OffsetIndex
from ottla_broker.log.segments.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from ottla_core.wire.record_batch import RecordBatchHeader


class IndexBuilder:
    """Collects the entries of new indexes; what the files held before is lost.

    Attributes:
        position: where the next batch starts.
    """

    __slots__ = ("_interval_bytes", "_largest", "_last_indexed", "_offset_index", "_time_index", "position")

    def __init__(self, offset_path: Path, time_path: Path, base_offset: int, interval_bytes: int) -> None:
        """Empty or create the files; raises OSError.

        Args:
            offset_path: the offset index.
            time_path: the time index.
            base_offset: the segment's base offset.
            interval_bytes: the topic's `index.interval.bytes`.
        """
        for path in (offset_path, time_path):
            path.write_bytes(b"")
        self.position = 0
        self._offset_index = OffsetIndex(offset_path, base_offset, 0)
        self._time_index = TimeIndex(time_path, base_offset, 0)
        self._interval_bytes = interval_bytes
        self._last_indexed = 0
        self._largest = TimestampOffset(NO_TIMESTAMP, base_offset)

    def add(self, header: RecordBatchHeader) -> None:
        """Take in the next batch."""
        if header.max_timestamp > self._largest.timestamp:
            self._largest = TimestampOffset(header.max_timestamp, header.last_offset)
        if self.position - self._last_indexed > self._interval_bytes:
            self._offset_index.append(header.last_offset, self.position)
            self._time_index.maybe_append(*self._largest)
            self._last_indexed = self.position
        self.position += header.size_bytes

    def finish(self) -> None:
        """Write the indexes; raises OSError."""
        self._time_index.maybe_append(*self._largest)
        self._offset_index.write_pending()
        self._time_index.write_pending()
