"""Making the directory of a new log, and getting others out of its way; everything here blocks.

Nothing is fsynced here. A log without records needs no durability: the cluster state says that the partition exists,
and a log that a power failure took is begun anew. The first flush covers what was made here (`LogFlush.begun`), so
whatever counts as durable lies in a directory that is there after a crash and says which topic it belongs to. What
is acknowledged before the first flush shares the fate of all records that are not fsynced: the kernel keeps it if
the process is killed, and after a power failure the replica leaves the in-sync set (`shutdown_record.py`) and, where
a checkpoint tells that there were records, reports that its log is lost. Kafka writes and fsyncs partition.metadata
behind the acknowledgement too, though before the first record (UnifiedLog.maybeFlushMetadataFile), the log's
directory when a new segment is flushed (LocalLog.flush), and never the directory's own name.
"""

import os
import shutil
from pathlib import Path
from typing import Final
from uuid import UUID

import structlog

from ottla_broker.log.background import Background
from ottla_broker.log.directories.log_directory import set_aside_name
from ottla_broker.log.files.log_disposal import LogDisposal
from ottla_broker.log.files.partition_metadata import begin_partition_metadata, read_partition_metadata
from ottla_broker.log.loading.log_loading import LoadRequest
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.errors import CorruptMessage
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log.store")


def create_log(request: LoadRequest, topic_id: UUID, background: Background) -> PartitionLog:
    """Create a log's directory and open the log in it; leaves nothing behind if it fails.

    Raises:
        OSError: the disk refuses.
    """
    path = request.directory
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
        if topic_id_in(path) == topic_id:
            log = PartitionLog.open(request, topic_id, background)
            log.mark_new()
            return log
        clear_the_way(path, request.topic_partition)
        path.mkdir()
    try:
        begin_partition_metadata(path, topic_id)
        return PartitionLog.begin(request, topic_id, background)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def topic_id_in(path: Path) -> UUID | None:
    """Return the topic id that a partition's directory names, or None; raises OSError."""
    try:
        return read_partition_metadata(path)
    except CorruptMessage as error:
        _logger.warning("the topic id of a partition is unreadable", problem=str(error))
        return None


def holds_nothing(path: Path) -> bool:
    """Return whether a partition's directory is what a power failure leaves of a log that was never flushed.

    Names without a byte behind them: nothing of it is worth keeping. Raises OSError.
    """
    return all(entry.stat(follow_symlinks=False).st_size == 0 for entry in os.scandir(path))


def clear_the_way(path: Path, topic_partition: TopicPartition) -> None:
    """Move a directory away that no log in use has; one that holds nothing is removed. Raises OSError."""
    try:
        path.rmdir()
    except OSError:
        target = path.with_name(set_aside_name(topic_partition, LogDisposal.SET_ASIDE))
        path.rename(target)
        _logger.warning(
            "a directory was in the way of a new log: it is set aside and kept; remove it if it is not needed",
            partition=str(topic_partition), directory=str(target),
        )  # fmt: skip
