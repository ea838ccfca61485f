"""Pieces of a log, as reads return them and responses carry them.

A `FileSlice` is a range of a segment's file, which leaves by `sendfile`. What a slice of another kind has is bytes in
memory; it says so by having nothing but the two things that `LogSlice` asks for.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ottla_broker.log.segments.segment_file import SegmentFile
from ottla_core.errors import KafkaStorageError


class LogSlice(Protocol):
    """Whole batches of a log, wherever they are."""

    @property
    def size(self) -> int:
        """How many bytes."""

    def read(self) -> bytes:
        """Return the bytes.

        Raises:
            OSError: the disk fails; `PartitionLog.reading` takes note of that.
            KafkaStorageError: they cannot be had any more.
        """


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of whole batches in a segment's file; it stays readable when the segment is deleted.

    It does not when the log is truncated before it was sent, which happens to a leader that follows another one.

    Attributes:
        file, position, size: of the range.
        on_refusal: told on the event loop, by `look_for_fault`, what the disk refuses.
    """

    file: SegmentFile
    position: int
    size: int
    on_refusal: Callable[[OSError], None]

    @property
    def is_lost(self) -> bool:
        """Whether the log was truncated, so that other batches may lie there by now."""
        return self.position + self.size > self.file.valid.end_position

    def after(self, sent_bytes: int) -> "FileSlice":
        """Return what is left when a beginning was sent."""
        return FileSlice(self.file, self.position + sent_bytes, self.size - sent_bytes, self.on_refusal)

    def look_for_fault(self) -> None:
        """Find out, after the piece could not be sent, whether that was the disk's fault, by reading a byte of it.

        What is sent at a time ends before the first page that the disk refuses, so the next time begins there.
        """
        try:
            os.pread(self.file.fileno(), 1, self.position)
        except OSError as error:
            self.on_refusal(error)

    def read(self) -> bytes:
        """Return the bytes; blocks while the disk does.

        Raises:
            OSError: the disk fails.
            KafkaStorageError: the log was truncated meanwhile.
        """
        data = os.pread(self.file.fileno(), self.size, self.position)
        if 0 < len(data) < self.size:  # the disk may have refused the rest, which only another call tells
            data += os.pread(self.file.fileno(), self.size - len(data), self.position + len(data))
        if self.is_lost:  # looked at last: what was cut while it was read may have been written over
            raise KafkaStorageError(f"{self.file.path} was truncated before all that was found there could be read")
        if len(data) < self.size:
            raise KafkaStorageError(f"{self.file.path} is shorter than its index says")
        return data
