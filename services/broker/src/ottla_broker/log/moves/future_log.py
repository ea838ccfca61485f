"""The files of a log's copy in another log directory, while it is being made.

The copy lives in `<topic>-<partition>.<uuid>-future`, which is Kafka's name for it. Files are copied as they are,
byte for byte: those of a log only ever grow, or go as a whole, unless the log is truncated, and then the copy begins
anew. So how far a copy has come is a number per file.
"""

import errno
import os
import shutil
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from ottla_broker.log.files.checkpoint_file import sync_directory, sync_file
from ottla_broker.log.files.leader_epoch_checkpoint import EpochEntry, write_leader_epochs
from ottla_broker.log.files.partition_metadata import write_partition_metadata
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.producers.producer_snapshot import SNAPSHOT_SUFFIX
from ottla_broker.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX

PIECES_MAX: Final = 256
"""Pieces that are copied before the event loop is asked whether to go on."""

Sizes = Mapping[str, int]
"""Bytes of each file, by its name."""


class Piece(NamedTuple):
    """Bytes of a file that the copy lacks."""

    name: str
    position: int
    size: int


@dataclass(slots=True)
class FutureFiles:
    """The files of one copy.

    Attributes:
        path: their directory.
        copied: how much there is of each.
    """

    path: Path
    copied: dict[str, int] = field(default_factory=dict)
    _unsynced: set[str] = field(default_factory=set)

    @property
    def size_bytes(self) -> int:
        """Bytes of records that have been copied."""
        return sum(size for name, size in self.copied.items() if name.endswith(LOG_SUFFIX))

    def begin(self, topic_id: UUID | None) -> None:
        """Create the directory, or empty it; blocks and raises OSError."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.copied.clear()
        self._unsynced.clear()
        self.path.mkdir()
        if topic_id is not None:
            write_partition_metadata(self.path, topic_id)

    def missing(self, wanted: Sizes) -> deque[Piece]:
        """Return what is to be copied, in the order of the files."""
        return deque(
            Piece(name, self.copied.get(name, 0), size - self.copied.get(name, 0))
            for name, size in wanted.items()
            if size > self.copied.get(name, 0) or name not in self.copied
        )

    def copy(self, source: Path, pieces: Iterable[Piece]) -> None:
        """Copy pieces from a directory; a file that is gone by now is passed over. Blocks and raises OSError."""
        for piece in pieces:
            self._copy(source, piece)

    def _copy(self, source: Path, piece: Piece) -> None:
        try:
            reading = os.open(source / piece.name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            copied = _copy_bytes(reading, self.path / piece.name, piece.position, piece.size)
        finally:
            os.close(reading)
        self.copied[piece.name] = piece.position + copied
        self._unsynced.add(piece.name)

    def check_whole(self, wanted: Sizes) -> None:
        """See that all of a log's segments has been copied, before its directory may go.

        Raises:
            FileNotFoundError: a file was not there, or not as much of it as the log knows.
        """
        for piece in self.missing(wanted):
            if not piece.name.endswith(SNAPSHOT_SUFFIX):  # which are removed in threads, and not needed
                raise FileNotFoundError(errno.ENOENT, "a file of the log is gone, or a part of it", piece.name)

    def remove_others(self, wanted: Collection[str]) -> None:
        """Remove what the log does not have any more; raises OSError."""
        for name in self.copied.keys() - set(wanted):
            (self.path / name).unlink(missing_ok=True)
            self._unsynced.discard(name)
            del self.copied[name]

    def make_durable(self, leader_epochs: Iterable[EpochEntry]) -> None:
        """Fsync all that was copied, and write the leader epochs beside it; blocks and raises OSError."""
        for name in tuple(self._unsynced):
            sync_file(self.path / name)
            self._unsynced.discard(name)
        write_leader_epochs(self.path, leader_epochs)
        sync_directory(self.path)

    def remove(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.path, ignore_errors=True)


def take(pieces: deque[Piece], size_max: int) -> list[Piece]:
    """Take off what comes first, up to so many bytes, at least one piece and no more than `PIECES_MAX`."""
    taken: list[Piece] = []
    left = size_max
    while pieces and left > 0 and len(taken) < PIECES_MAX:
        piece = pieces.popleft()
        if piece.size > left:
            pieces.appendleft(Piece(piece.name, piece.position + left, piece.size - left))
            piece = piece._replace(size=left)
        taken.append(piece)
        left -= piece.size
    return taken


def files_of(log: PartitionLog) -> dict[str, int]:
    """Return a log's files as they are, the oldest segment's first, once its indexes are written; raises OSError."""
    found: dict[str, int] = {}
    first_offset = log.first_segment_offset
    for entry in os.scandir(log.directory):
        stem, dot, suffix = entry.name.partition(".")
        if dot + suffix == SNAPSHOT_SUFFIX and stem.isdigit() and int(stem) >= first_offset:
            found[entry.name] = entry.stat().st_size
    for segment in log.segments:
        segment.write_indexes()
        found[segment.path(INDEX_SUFFIX).name] = segment.offset_index.size_bytes
        found[segment.path(TIME_INDEX_SUFFIX).name] = segment.time_index.size_bytes
        if segment.transaction_index.has_file:
            found[segment.path(TRANSACTION_INDEX_SUFFIX).name] = segment.transaction_index.size_bytes
        found[segment.path(LOG_SUFFIX).name] = segment.size_bytes
    return found


def first_offset_missing(log: PartitionLog, copied: Sizes) -> int:
    """Return an offset up to which a log was copied: the base offset of the first segment that is not whole."""
    for segment in log.segments:
        if copied.get(segment.path(LOG_SUFFIX).name, 0) < segment.size_bytes:
            return segment.base_offset
    return log.log_end_offset


def _copy_bytes(source: int, target: Path, position: int, size: int) -> int:
    """Copy a part of an open file to the same place in another; return how much there was of it."""
    writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.lseek(writing, position, os.SEEK_SET)
        done = 0
        while done < size:
            count = os.sendfile(writing, source, position + done, size - done)
            if count == 0:
                break
            done += count
        return done
    finally:
        os.close(writing)
