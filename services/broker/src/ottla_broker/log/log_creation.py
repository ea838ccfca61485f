"""Making the directory of a new log, and getting others out of its way; everything here blocks."""

import shutil
from pathlib import Path
from typing import Final
from uuid import UUID

import structlog

from ottla_broker.log.background import Background
from ottla_broker.log.checkpoint_file import sync_directory
from ottla_broker.log.log_directory import set_aside_name
from ottla_broker.log.log_loading import LoadRequest
from ottla_broker.log.partition_log import PartitionLog
from ottla_broker.log.partition_metadata import read_partition_metadata, write_partition_metadata
from ottla_broker.log.retirement import Retirement
from ottla_core.errors import CorruptMessage
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log.store")


def create_log(request: LoadRequest, topic_id: UUID, background: Background) -> PartitionLog:
    """Create a log's directory and open the log in it; leaves nothing behind if it fails.

    Raises:
        OSError: the disk refuses.
    """
    path = request.directory
    is_there = path.is_dir() and topic_id_in(path) == topic_id
    if path.is_dir() and not is_there:
        clear_the_way(path, request.topic_partition)
    path.mkdir(exist_ok=is_there)
    try:
        write_partition_metadata(path, topic_id)
        log = PartitionLog.open(request, topic_id, background)
        sync_directory(path.parent)
    except BaseException:
        if not is_there:
            shutil.rmtree(path, ignore_errors=True)
        raise
    return log


def topic_id_in(path: Path) -> UUID | None:
    """Return the topic id that a partition's directory names, or None; raises OSError."""
    try:
        return read_partition_metadata(path)
    except CorruptMessage as error:
        _logger.warning("the topic id of a partition is unreadable", problem=str(error))
        return None


def clear_the_way(path: Path, topic_partition: TopicPartition) -> None:
    """Move a directory away that no log in use has; one that holds nothing is removed. Raises OSError."""
    try:
        path.rmdir()
    except OSError:
        target = path.with_name(set_aside_name(topic_partition, Retirement.SET_ASIDE))
        path.rename(target)
        _logger.warning(
            "a directory was in the way of a new log: it is set aside and kept; remove it if it is not needed",
            partition=str(topic_partition), directory=str(target),
        )  # fmt: skip
