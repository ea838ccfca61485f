"""Offsets of all partitions of a log directory in one file, a line `topic partition offset` each.

A log directory has four of them: recovery points (below which everything is fsynced and its CRCs need no check after
a crash), high watermarks, log start offsets, and first dirty offsets (below which a log is compacted). Where a disk
has lost something there are two more: lost logs, and offsets from which on records are lost. Source: Kafka's
OffsetCheckpointFile.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla_broker.log.files.checkpoint_file import read_checkpoint, write_checkpoint
from ottla_core.errors import CorruptMessage
from ottla_core.topic_partition import TopicPartition

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOST_LOGS_CHECKPOINT: Final = "lost-logs-checkpoint"
LOST_RECORDS_CHECKPOINT: Final = "lost-records-checkpoint"
UNCERTAIN_ENDS_CHECKPOINT: Final = "uncertain-ends-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"

Offsets = Mapping[TopicPartition, int]


class OffsetCheckpoint:
    """One such file. It is not written again while its content would be the same.

    What the file holds is remembered; `_content` is None while that is not known for sure.
    """

    __slots__ = ("_content", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content: dict[TopicPartition, int] | None = None

    def may_name(self, topic_partition: TopicPartition) -> bool:
        """Return whether the file has an offset for a partition, as far as is known."""
        return self._content is None or topic_partition in self._content

    def read(self) -> dict[TopicPartition, int]:
        """Return the offsets.

        Raises:
            CorruptMessage: the file is damaged.
            OSError: it cannot be read.
        """
        offsets = {}
        for topic, partition, offset in read_checkpoint(self.path, 3):
            try:
                offsets[TopicPartition(topic, int(partition))] = int(offset)
            except ValueError:
                raise CorruptMessage(f"{self.path} has a bad line: {topic} {partition} {offset}") from None
        self._content = dict(offsets) if offsets else None  # there may be no file yet
        return offsets

    def write(self, offsets: Offsets) -> None:
        """Replace the offsets; raises OSError."""
        if offsets == self._content:
            return
        content = dict(offsets)
        self._content = None
        write_checkpoint(
            self.path,
            [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(content.items())],
        )
        self._content = content
