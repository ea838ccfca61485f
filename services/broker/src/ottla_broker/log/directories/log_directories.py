"""All log directories of a broker together: which can be used, since when they are intact, and what they have lost.

A directory that fails at start is set offline with an error, and the broker goes on with the others.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import structlog

from ottla_broker.log.directories.log_directory import LogDirectory
from ottla_core.cluster.state.model import NO_EPOCH
from ottla_core.errors import ConfigurationError
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log.store")


class LogDirectories:
    """The log directories of one broker, in the order of `log.dirs`."""

    __slots__ = ("_directories",)

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self._directories = tuple(directories)

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._directories)

    def online(self) -> Iterable[LogDirectory]:
        """Return the directories without an error."""
        return (directory for directory in self._directories if directory.error is None)

    async def open(self, *, node_id: int, cluster_id: str, recovery: int = 0) -> None:
        """Take over the directories, one after the other; those that fail are set offline.

        `recovery` is the number of the last recovery of the cluster's state.

        Raises:
            ConfigurationError: one is in use or belongs to someone else, or none can be used.
        """
        for directory in self._directories:
            try:
                await asyncio.to_thread(directory.open, node_id=node_id, cluster_id=cluster_id, recovery=recovery)
            except OSError as error:
                self.set_offline(directory, error)
        self.check_any_online()

    def set_offline(self, directory: LogDirectory, error: OSError) -> None:
        """Use a directory no longer."""
        directory.error = f"{directory.path}: {error.strerror or error}"
        _logger.error("log directory is offline", directory=str(directory.path), problem=str(error))

    def check_any_online(self) -> None:
        """See that a directory can be used.

        Raises:
            ConfigurationError: none can.
        """
        if not any(True for _ in self.online()):
            problems = "; ".join(directory.error or "" for directory in self._directories)
            raise ConfigurationError(f"None of the log directories can be used: {problems}")

    def release(self) -> None:
        """Let go of all directories."""
        for directory in self._directories:
            directory.close()

    @property
    def ids(self) -> Mapping[Path, UUID]:
        """The ids of the directories in use."""
        return {directory.path: directory.directory_id for directory in self.online()}

    @property
    def lost(self) -> set[TopicPartition]:
        """The partitions of which only the checkpoints know: they had committed records, and have no log any more."""
        return {name for directory in self._directories for name in directory.lost}

    def settle_loss(self, topic_partition: TopicPartition) -> None:
        """Note that the cluster knows that a partition's log is lost."""
        for directory in self.online():
            if directory.lost.pop(topic_partition, None) is not None:
                try:
                    directory.lost_logs.write(directory.lost)
                except OSError as error:  # the next start asks the cluster once more
                    _logger.error("a settled loss may be reported again", problem=str(error))

    @property
    def intact_since(self) -> int:
        """The broker epoch since which no directory in use has lost anything; see `Member.intact_since`."""
        found = [directory.intact_since for directory in self.online()]
        return NO_EPOCH if NO_EPOCH in found else max(found, default=0)

    async def registered(self, broker_epoch: int) -> None:
        """Note the first registration after an unclean shutdown."""
        for directory in list(self.online()):
            try:
                await asyncio.to_thread(directory.registered, broker_epoch)
            except OSError as error:  # the next start takes this registration's records for lost, too
                _logger.error("a shutdown record cannot be written", problem=str(error))


async def take_directories(
    paths: Sequence[Path], *, node_id: int, cluster_id: str, recovery: int = 0
) -> LogDirectories:
    """Return log directories that this process has taken over; see `LogDirectories.open`.

    Raises:
        ConfigurationError: one is in use or belongs to someone else, or none can be used.
    """
    directories = LogDirectories([LogDirectory(path.absolute()) for path in paths])
    try:
        await directories.open(node_id=node_id, cluster_id=cluster_id, recovery=recovery)
    except BaseException:
        directories.release()
        raise
    return directories
