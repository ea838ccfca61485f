"""The leader epochs of a log: at which offset each epoch began.

Followers and consumers compare epochs to find where their log and the leader's part. The list is kept in memory
and in `leader-epoch-checkpoint`. The file may lag: it is written before the recovery point moves on, and beyond the
recovery point the batches are the truth. What the file lacks is found again in them, and what it says of a history
that was truncated is dropped, because they contradict it. Source: Kafka's LeaderEpochFileCache, which only adds.
"""

from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ottla_broker.log.files.checkpoint_file import read_checkpoint, write_checkpoint
from ottla_core.errors import CorruptMessage

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """An epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochRun(NamedTuple):
    """Neighbouring batches of one epoch, as found in a segment: the first offset and the last one."""

    epoch: int
    first_offset: int
    last_offset: int


class LeaderEpochs:
    """The epochs of one log, ascending in epoch and in start offset.

    Attributes:
        latest: the newest epoch, or -1.
        is_dirty: the file lacks a change.
    """

    __slots__ = ("_entries", "is_dirty", "latest")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest = UNDEFINED_EPOCH
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.is_dirty = False

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All epochs, ascending."""
        return tuple(self._entries)

    def _changed(self) -> None:
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
        self.is_dirty = True

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that an epoch starts at an offset; entries that contradict it are dropped."""
        assert epoch >= 0, f"leader epoch {epoch}"
        assert start_offset >= 0, f"start offset {start_offset}"
        entries = self._entries
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self._changed()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch`, and the offset at which the one after it starts.

        The newest epoch ends at the log's end. An epoch older than all known ones ends where the first known
        one starts. For a newer one, or -1, the answer is (-1, -1).
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self._entries[higher].start_offset
        return (self._entries[higher - 1].epoch if higher else epoch), end_offset

    def epoch_at(self, offset: int) -> int:
        """Return the epoch in which the record at `offset` was appended, or -1."""
        following = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[following - 1].epoch if following else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop epochs that start at or after the log's new end."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            while self._entries and self._entries[-1].start_offset >= end_offset:
                self._entries.pop()
            self._changed()

    def truncate_from_start(self, start_offset: int, log_end_offset: int) -> None:
        """Drop epochs that ended before the log's new start; the one it lies in now starts there.

        Of an emptied log the epoch of its last record stays, at that record. At the log's end it could not be told,
        after a crash, from an epoch that has no records there, or of which they were cut off.
        """
        first_offset = min(start_offset, log_end_offset - 1)
        covered = bisect_right(self._entries, first_offset, key=lambda entry: entry.start_offset)
        if covered and (covered > 1 or self._entries[0].start_offset != first_offset):
            self._entries[:covered] = [EpochEntry(self._entries[covered - 1].epoch, first_offset)]
            self._changed()

    def agree_with(self, runs: Iterable[EpochRun]) -> None:
        """Drop what batches of the log contradict, and add the epochs that only they know.

        An epoch whose batches are all compacted away, or its first ones, is not contradicted.
        """
        for run in runs:
            kept = [entry for entry in self._entries if not _contradicts(entry, run)]
            if all(entry.epoch != run.epoch for entry in kept):
                # Without it, whoever has records of an epoch that was truncated here is not told to cut them.
                kept.append(EpochEntry(run.epoch, run.first_offset))
                kept.sort()
            if kept != self._entries:
                self._entries = kept
                self._changed()

    def clear(self) -> None:
        """Forget all epochs."""
        if self._entries:
            self._entries.clear()
            self._changed()


def _contradicts(entry: EpochEntry, run: EpochRun) -> bool:
    if entry.epoch > run.epoch:
        return entry.start_offset <= run.last_offset
    if entry.epoch == run.epoch:
        return entry.start_offset > run.first_offset
    return entry.start_offset >= run.first_offset


def read_leader_epochs(directory: Path) -> LeaderEpochs:
    """Return the epochs from a partition's checkpoint file.

    Raises:
        CorruptMessage: the file is damaged.
        OSError: it cannot be read.
    """
    path = directory / LEADER_EPOCH_CHECKPOINT
    entries = []
    for epoch, start_offset in read_checkpoint(path, 2):
        if not (epoch.isdigit() and start_offset.isdigit()):
            raise CorruptMessage(f"{path} has a bad line: {epoch} {start_offset}")
        entries.append(EpochEntry(int(epoch), int(start_offset)))
    return LeaderEpochs(entries)


def write_leader_epochs(directory: Path, entries: Iterable[EpochEntry]) -> None:
    """Replace a partition's checkpoint file; raises OSError."""
    write_checkpoint(
        directory / LEADER_EPOCH_CHECKPOINT, [f"{epoch} {start_offset}" for epoch, start_offset in entries]
    )
