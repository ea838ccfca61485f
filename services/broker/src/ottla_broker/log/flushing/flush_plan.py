"""What a flush makes durable: collected on the event loop, carried out in a thread."""

import errno
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla_broker.log.files.checkpoint_file import FsyncFailed, sync_descriptor, sync_directory, sync_file
from ottla_broker.log.files.leader_epoch_checkpoint import EpochEntry, write_leader_epochs
from ottla_broker.log.segments.segment_file import SegmentFile
from ottla_broker.log.segments.transaction_index import TransactionIndex

Epochs = tuple[EpochEntry, ...]

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Refusals for want of space, which pass by themselves."""


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """What to make durable, so that the recovery point may move to `through_offset`.

    Attributes:
        directory: the partition's directory.
        files: segments' files.
        paths: index and snapshot files; those that are gone by now need no fsync.
        snapshots: the snapshot files among them.
        sync_names: whether files were created since the last flush, or removed by a truncation.
        sync_place: whether the directory itself was made or moved and no flush has made that durable yet.
        through_offset: the recovery point afterwards.
        truncation_count: how often the log had been truncated when this was planned.
        new_names: transaction indexes of which no flush has made the names durable yet.
    """

    directory: Path
    files: tuple[SegmentFile, ...]
    paths: tuple[Path, ...]
    snapshots: tuple[Path, ...]
    sync_names: bool
    sync_place: bool
    through_offset: int
    truncation_count: int
    new_names: tuple[TransactionIndex, ...] = ()

    def run(self, leader_epochs: Epochs | None) -> None:
        """Do it, and write the epochs unless the file has them; blocks, and raises OSError."""
        for file in self.files:
            sync_descriptor(file.fileno())
        for path in self.paths:
            with suppress(FileNotFoundError):
                sync_file(path)
        with suppress(FileNotFoundError):  # the whole partition may have been deleted meanwhile
            if leader_epochs is not None:
                self._write_leader_epochs(leader_epochs)  # fsyncs the names in the directory, too
            elif self.sync_names:
                sync_directory(self.directory)
            if self.sync_place:
                sync_directory(self.directory.parent)

    def _write_leader_epochs(self, entries: Epochs) -> None:
        try:
            write_leader_epochs(self.directory, entries)
        except FsyncFailed as error:
            if error.errno in NO_SPACE:  # the file is written anew the next time, so nothing is lost
                raise OSError(*error.args) from error
            raise
