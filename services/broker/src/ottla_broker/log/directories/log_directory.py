"""One entry of `log.dirs`: who may use it, what it held at the last stop, and what it says about its partitions.

A log directory belongs to one broker of one cluster, which `meta.properties` records, and to one process at a
time, which a file lock ensures. `.kafka_cleanshutdown` is written as the very last thing of a clean stop and
removed as the first thing of the next start; without it, recovery runs. Whether records may have been lost is another
question, which `shutdown_record.py` answers.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import structlog

from ottla_broker.log.files.checkpoint_file import replace_file, sync_directory, sync_file
from ottla_broker.log.files.log_disposal import LogDisposal
from ottla_broker.log.files.offset_checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOST_LOGS_CHECKPOINT,
    LOST_RECORDS_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    UNCERTAIN_ENDS_CHECKPOINT,
    OffsetCheckpoint,
)
from ottla_broker.log.files.shutdown_record import begin_record, write_record
from ottla_core.cluster.state.model import NO_EPOCH
from ottla_core.cluster.state.state_copy import COPY_FILE
from ottla_core.errors import ConfigurationError, CorruptMessage, InvalidTopic
from ottla_core.kafka_uuid import ZERO_UUID, parse_uuid_text, uuid_text
from ottla_core.random_ids import random_uuid
from ottla_core.topic_partition import TopicPartition

META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
LOCK_FILE: Final = ".lock"

FUTURE_DIRECTORY_SUFFIX: Final = "-future"

_META_VERSION: Final = "1"
_NAME_LENGTH_MAX: Final = 255
_PARTITION_DIRECTORY: Final = re.compile(r"^(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)$")
_SET_ASIDE_DIRECTORY: Final = re.compile(r"\.[0-9a-f]{32}-(delete|stray|future)$")

_logger: Final = structlog.get_logger("log.directory")


def parse_partition_directory(name: str) -> TopicPartition | None:
    """Return the partition that a directory of this name holds, or None if it holds none."""
    found = _PARTITION_DIRECTORY.match(name)
    if found is None or _SET_ASIDE_DIRECTORY.search(name):
        return None
    return TopicPartition(found["topic"], int(found["partition"]))


def parse_future_directory(name: str) -> TopicPartition | None:
    """Return the partition whose copy a directory of this name holds, or None if it holds none."""
    if not name.endswith(FUTURE_DIRECTORY_SUFFIX) or not _SET_ASIDE_DIRECTORY.search(name):
        return None
    return parse_partition_directory(_SET_ASIDE_DIRECTORY.sub("", name))


def future_name(topic_partition: TopicPartition) -> str:
    """Return a unique name for the copy of a partition's log.

    Raises:
        InvalidTopic: the topic's name is too long for that.
    """
    name = f"{topic_partition}.{uuid4().hex}{FUTURE_DIRECTORY_SUFFIX}"
    if len(name) > _NAME_LENGTH_MAX:
        raise InvalidTopic(f"The topic name is too long for {topic_partition} to be moved: {topic_partition.topic}")
    return name


def set_aside_name(topic_partition: TopicPartition, retirement: LogDisposal) -> str:
    """Return a unique name for a partition's directory that is no log any more; at most 255 characters."""
    end = f"-{topic_partition.partition}.{uuid4().hex}{retirement}"
    return topic_partition.topic[: _NAME_LENGTH_MAX - len(end)] + end


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep every other process from using a log directory.

    Raises:
        ConfigurationError: another process uses it.
        OSError: it cannot be used.
    """
    lock = _take_lock(path)
    try:
        yield
    finally:
        os.close(lock)


def _take_lock(path: Path) -> int:
    """Return the descriptor that holds the lock of a log directory."""
    lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kind of lock that Kafka takes
    except BlockingIOError:
        os.close(lock)
        raise ConfigurationError(
            f"Log directory {path} is in use by another process (it holds {path / LOCK_FILE})"
        ) from None
    return lock


class LogDirectory:
    """One log directory in use.

    Attributes:
        path: where it is.
        directory_id: its identity, kept in `meta.properties`.
        was_clean: the last stop was clean.
        intact_since: nothing was lost here since this broker epoch; see `Member.intact_since`.
        fsync_failed: what was not fsynced before may be lost although it can be read, as an fsync had failed.
        error: why the directory cannot be used, or None.
        lost: high watermarks that the checkpoint had of logs that are gone or empty, nobody knows why; kept in a file
            of its own, `lost_logs`, until the cluster knows.
        lost_records: the checkpoint file of `PartitionLog.lost_from`.
        uncertain_ends: the checkpoint file of the logs that may lack their ends, with what these were found to be.
        recovery_points, high_watermarks, log_start_offsets, first_dirty_offsets: the checkpoint files.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory_id = ZERO_UUID
        self.was_clean = False
        self.intact_since = 0
        self.fsync_failed = False
        self.error: str | None = None
        self.lost_logs = OffsetCheckpoint(path / LOST_LOGS_CHECKPOINT)
        self.lost: dict[TopicPartition, int] = {}
        self.lost_records = OffsetCheckpoint(path / LOST_RECORDS_CHECKPOINT)
        self.uncertain_ends = OffsetCheckpoint(path / UNCERTAIN_ENDS_CHECKPOINT)
        self.recovery_points = OffsetCheckpoint(path / RECOVERY_POINT_CHECKPOINT)
        self.high_watermarks = OffsetCheckpoint(path / HIGH_WATERMARK_CHECKPOINT)
        self.log_start_offsets = OffsetCheckpoint(path / LOG_START_OFFSET_CHECKPOINT)
        self.first_dirty_offsets = OffsetCheckpoint(path / CLEANER_OFFSET_CHECKPOINT)
        self._lock = -1
        self._recovery = 0

    def open(self, *, node_id: int, cluster_id: str, recovery: int = 0) -> None:
        """Create the directory if need be, lock it, and check whose it is; blocks.

        `recovery` is the number of the last recovery of the cluster's state.

        Raises:
            ConfigurationError: another process uses it, or it belongs to another cluster or broker.
            OSError: it cannot be used.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = _take_lock(self.path)
        try:
            is_new = self._check_owner(node_id, cluster_id)
            marker = self.path / CLEAN_SHUTDOWN_MARKER
            self.was_clean = marker.exists()
            record = begin_record(self.path, was_clean=self.was_clean or is_new, recovery=recovery)
            self._recovery = recovery
            self.intact_since, self.fsync_failed = record.intact_since, record.fsync_failed
            marker.unlink(missing_ok=True)
            sync_directory(self.path)
        except BaseException:
            self.close()
            raise

    def registered(self, broker_epoch: int) -> None:
        """Note the first registration after an unclean shutdown; blocks and raises OSError.

        An epoch from after the present one was counted by an etcd that was put back to a snapshot since.
        """
        if self.intact_since == NO_EPOCH or self.intact_since > broker_epoch:
            write_record(self.path, broker_epoch, recovery=self._recovery)
            self.intact_since = broker_epoch

    def _check_owner(self, node_id: int, cluster_id: str) -> bool:
        """See whose directory it is, and return whether it is new."""
        path = self.path / META_PROPERTIES
        if not path.exists():
            self.directory_id = random_uuid()
            replace_file(
                path,
                f"cluster.id={cluster_id}\nversion={_META_VERSION}\n"
                f"directory.id={uuid_text(self.directory_id)}\nnode.id={node_id}\n",
            )
            return True
        properties = read_properties(path)
        found_cluster = properties.get("cluster.id")
        found_node = properties.get("node.id", properties.get("broker.id"))
        if found_cluster != cluster_id:
            raise ConfigurationError(
                f"Log directory {self.path} belongs to cluster {found_cluster}, not {cluster_id}."
                " If etcd has lost its data, `ottla cluster recover` brings the cluster back;"
                " else use another directory, or remove this one if its data is not needed"
            )
        if found_node != str(node_id):
            raise ConfigurationError(f"Log directory {self.path} belongs to node {found_node}, not {node_id}")
        try:
            self.directory_id = parse_uuid_text(properties.get("directory.id", ""))
        except ValueError:
            self.directory_id = random_uuid()
            with path.open("a", encoding="utf-8") as file:
                file.write(f"directory.id={uuid_text(self.directory_id)}\n")
        return False

    def read_offsets(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        """Return a checkpoint's offsets; a damaged file counts as empty, which costs time and no data."""
        try:
            return checkpoint.read()
        except CorruptMessage as error:
            _logger.warning("a checkpoint is unreadable and ignored", problem=str(error))
            return {}

    def checkpoints_may_name(self, topic_partition: TopicPartition) -> bool:
        """Return whether a checkpoint file may have an offset for a partition."""
        checkpoints = (
            self.recovery_points,
            self.high_watermarks,
            self.log_start_offsets,
            self.first_dirty_offsets,
            self.lost_records,
            self.uncertain_ends,
        )
        return any(checkpoint.may_name(topic_partition) for checkpoint in checkpoints)

    def partitions(self) -> Iterator[tuple[TopicPartition, Path]]:
        """Yield the partitions that have a directory here."""
        for path in sorted(self.path.iterdir()):
            topic_partition = parse_partition_directory(path.name)
            if topic_partition is not None and path.is_dir():
                yield topic_partition, path

    def retired_partitions(self) -> set[TopicPartition]:
        """Return the partitions whose logs were retired here and whose files are not removed yet; raises OSError."""
        names = (path.name for path in self.path.iterdir() if _SET_ASIDE_DIRECTORY.search(path.name))
        found = (parse_partition_directory(_SET_ASIDE_DIRECTORY.sub("", name)) for name in names)
        return {topic_partition for topic_partition in found if topic_partition is not None}

    def remove_leftovers(self) -> None:
        """Remove the directories of partitions that were deleted before the last stop; blocks."""
        for path in self.path.iterdir():
            if path.name.endswith(LogDisposal.DELETE) and _SET_ASIDE_DIRECTORY.search(path.name):
                _logger.info("removing a deleted partition", directory=str(path))
                shutil.rmtree(path, ignore_errors=True)

    def mark_clean(self) -> None:
        """Write the clean-shutdown marker; raises OSError.

        It says that the directory lacks nothing even if the machine goes down next, so the copy of the cluster's
        state is made durable before. A broker whose logs are closed does not act by what is added afterwards.
        """
        with contextlib.suppress(FileNotFoundError):
            sync_file(self.path / COPY_FILE)
        path = self.path / CLEAN_SHUTDOWN_MARKER
        replace_file(path, json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":")))

    def close(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def read_properties(path: Path) -> dict[str, str]:
    """Return the entries of a properties file such as `meta.properties`; raises OSError."""
    properties = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, separator, value = line.partition("=")
        if separator and not name.lstrip().startswith(("#", "!")):
            properties[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return properties
