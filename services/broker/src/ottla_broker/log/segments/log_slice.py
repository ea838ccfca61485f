"""Pieces of a log, as reads return them and responses carry them.

A `FileSlice` is a range of a segment's file, which leaves by `sendfile`. What a slice of another kind has is bytes in
memory; it says so by having nothing but the two things that `LogSlice` asks for.
"""

import os
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
            KafkaStorageError: they cannot be had any more.
        """


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of whole batches in a segment's file; it stays readable when the segment is deleted.

    It does not when the log is truncated before it was sent, which happens to a leader that follows another one.
    """

    file: SegmentFile
    position: int
    size: int

    @property
    def is_lost(self) -> bool:
        """Whether the log was truncated, so that other batches may lie there by now."""
        return self.position + self.size > self.file.valid.end_position

    def after(self, sent_bytes: int) -> "FileSlice":
        """Return what is left when a beginning was sent."""
        return FileSlice(self.file, self.position + sent_bytes, self.size - sent_bytes)

    def read(self) -> bytes:
        """Return the bytes; blocks while the disk does.

        Raises:
            KafkaStorageError: the disk fails, or the log was truncated meanwhile.
        """
        try:
            data = os.pread(self.file.fileno(), self.size, self.position)
        except OSError as error:
            raise KafkaStorageError(f"cannot read {self.file.path}: {error.strerror}") from error
        if self.is_lost:  # looked at last: what was cut while it was read may have been written over
            raise KafkaStorageError(f"{self.file.path} was truncated before all that was found there could be read")
        if len(data) < self.size:
            raise KafkaStorageError(f"{self.file.path} is shorter than its index says")
        return data
