"""When and with what the checkpoint files of the log directories are written.

All writers come through here: the duties, a clean stop, the creation of a log whose name an older log had, and logs
that are about to be truncated. For each directory they take turns, and offsets are looked up only when it is one's
turn, so an older state never replaces a newer one. A write that has begun is finished even if nobody waits for it any
more.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from ottla_broker.log.directories.log_directories import LogDirectories
from ottla_broker.log.directories.log_directory import LogDirectory
from ottla_broker.log.files.offset_checkpoint import OffsetCheckpoint, Offsets
from ottla_broker.log.files.storage_problems import StorageProblems
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.background import start_awaited
from ottla_core.topic_partition import TopicPartition

Logs = Mapping[TopicPartition, PartitionLog]
Contents = list[tuple[OffsetCheckpoint, Offsets]]


class DirectoriesAndLogs(Protocol):
    """What checkpoints and duties need of the log store."""

    directories: LogDirectories
    logs: Logs
    storage_problems: StorageProblems

    def logs_in(self, directory: LogDirectory) -> dict[TopicPartition, PartitionLog]:
        """Return the logs that live in a directory."""

    def arriving_in(self, directory: LogDirectory) -> dict[TopicPartition, PartitionLog]:
        """Return the logs that may live in a directory at any moment, being moved there."""


class DirectoryCheckpoints:
    """Writes the checkpoints of all log directories; each method raises OSError if the disk refuses."""

    def __init__(self, store: DirectoriesAndLogs) -> None:
        self._store = store
        self._turns: dict[Path, asyncio.Lock] = {}
        self._announcements: dict[Path, asyncio.Task[None]] = {}

    async def write_recovery_points(self, directory: LogDirectory) -> None:
        """Write the recovery points, log start offsets and first dirty offsets of a directory's logs."""
        await self._write(directory, lambda logs: _recovery_contents(directory, logs))

    async def write_high_watermarks(self, directory: LogDirectory) -> None:
        """Write the high watermarks of a directory's logs."""
        await self._write(directory, lambda logs: _high_watermark_contents(directory, logs))

    async def write_first_dirty_offsets(self, directory: LogDirectory) -> None:
        """Write how far a directory's logs are compacted."""
        await self._write(directory, lambda logs: [_first_dirty_contents(directory, logs)])

    async def write_all(self, directory: LogDirectory) -> None:
        """Write all checkpoints of a directory."""
        await self._write(directory, lambda logs: _all_contents(directory, logs))

    async def announce_truncation(self, directory: LogDirectory) -> None:
        """Write all checkpoints of a directory, for a log that is about to be cut.

        Those who ask before it has begun share one write: an election may cut the logs of a whole broker.
        """
        announcement = self._announcements.get(directory.path)
        if announcement is None:

            def contents(logs: Logs) -> Contents:
                del self._announcements[directory.path]
                return _all_contents(directory, logs)

            announcement = start_awaited("announcement of truncations", self._write(directory, contents))
            self._announcements[directory.path] = announcement
        await asyncio.shield(announcement)

    async def make_room_for(self, directory: LogDirectory, topic_partitions: Collection[TopicPartition]) -> None:
        """Remove what the checkpoints may still say of older logs of these names, which are gone.

        Without it a new log could be loaded, after a crash, with the start or recovery point of the older one.
        """
        await self._write(
            directory,
            lambda logs: _all_contents(directory, logs),
            is_needed=lambda: any(map(directory.checkpoints_may_name, topic_partitions)),
        )

    async def _write(
        self,
        directory: LogDirectory,
        contents: Callable[[Logs], Contents],
        *,
        is_needed: Callable[[], bool] = lambda: True,
    ) -> None:
        async def write_in_turn() -> None:
            async with self._turns.setdefault(directory.path, asyncio.Lock()):
                if not is_needed():
                    return  # without a look at all logs, or creating many would cost the square of their number
                found = contents(self._store.logs_in(directory) | self._store.arriving_in(directory))
                if found:
                    await asyncio.to_thread(_write_each, found)

        # A thread cannot be cancelled, so the turn lasts until the thread has ended, whoever gives up waiting.
        await asyncio.shield(start_awaited("checkpoints", write_in_turn()))


def _write_each(contents: Contents) -> None:
    for checkpoint, offsets in contents:
        checkpoint.write(offsets)


def _recovery_contents(directory: LogDirectory, logs: Logs) -> Contents:
    settled = {key: log for key, log in logs.items() if log.directory.parent == directory.path}
    return [
        (
            directory.recovery_points,
            {key: log.truncation.checkpointed(log.recovery_point) for key, log in settled.items()},
        ),
        (directory.log_start_offsets, _moved_log_starts(logs)),
        _first_dirty_contents(directory, logs),
        *_loss_contents(directory, logs),
    ]


def _loss_contents(directory: LogDirectory, logs: Logs) -> Contents:
    """Return from where on which logs lack records, and which may lack their ends; few have such files."""
    found = (
        (directory.lost_records, {key: log.lost_from for key, log in logs.items() if log.lost_from is not None}),
        (directory.uncertain_ends, {key: log.log_end_offset for key, log in logs.items() if log.may_lack_end}),
    )
    return [(checkpoint, offsets) for checkpoint, offsets in found if offsets or checkpoint.path.exists()]


def _first_dirty_contents(directory: LogDirectory, logs: Logs) -> tuple[OffsetCheckpoint, Offsets]:
    return directory.first_dirty_offsets, {
        key: log.truncation.checkpointed(log.compaction.first_dirty_offset)
        for key, log in logs.items()
        if log.compaction.first_dirty_offset is not None
    }


def _high_watermark_contents(directory: LogDirectory, logs: Logs) -> Contents:
    return [
        (
            directory.high_watermarks,
            {key: log.truncation.checkpointed(log.high_watermark) for key, log in logs.items()},
        )
    ]


def _all_contents(directory: LogDirectory, logs: Logs) -> Contents:
    return _recovery_contents(directory, logs) + _high_watermark_contents(directory, logs)


def _moved_log_starts(logs: Logs) -> dict[TopicPartition, int]:
    """Return the log start offsets that the first segment's name does not tell; as Kafka does."""
    found = {key: log.truncation.checkpointed(log.log_start_offset) for key, log in logs.items()}
    return {key: offset for key, offset in found.items() if offset > logs[key].first_segment_offset}
