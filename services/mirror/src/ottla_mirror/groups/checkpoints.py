"""Checkpoints as MirrorMaker 2 writes them: what a group's offset is at the target. Its tools read them there. Pure.

Source of the format: `Checkpoint` in Kafka's connect/mirror-client.
"""

from typing import Final, NamedTuple

from ottla_core.errors import InvalidRecord
from ottla_core.wire.records import Record
from ottla_mirror.internal_topics.struct_fields import INT16, INT32, INT64, FieldReader, string
from ottla_mirror.internal_topics.topic_requests import Entry

VERSION: Final = 0


class CheckpointKey(NamedTuple):
    """A group and a partition of the target."""

    group: str
    topic: str
    partition: int

    def encoded(self) -> bytes:
        """Return the key of its records."""
        return string(self.group) + string(self.topic) + INT32.pack(self.partition)


class Checkpoint(NamedTuple):
    """A group's translated offset.

    Attributes:
        upstream_offset: what the group has committed at the source.
        downstream_offset: what that is at the target.
        metadata: what the group has written beside its offset.
    """

    upstream_offset: int
    downstream_offset: int
    metadata: str

    def encoded(self) -> bytes:
        """Return the value of its record."""
        offsets = INT64.pack(self.upstream_offset) + INT64.pack(self.downstream_offset)
        return INT16.pack(VERSION) + offsets + string(self.metadata)


def checkpoint_entry(key: CheckpointKey, checkpoint: Checkpoint | None) -> Entry:
    """Return the record of a checkpoint, or the one that deletes it."""
    return Entry(key.encoded(), None if checkpoint is None else checkpoint.encoded())


def read_key(key: bytes) -> CheckpointKey:
    """Return the key that these bytes are.

    Raises:
        InvalidRecord: they are malformed.
    """
    fields = FieldReader(key, "key of a checkpoint")
    return CheckpointKey(fields.string(), fields.string(), fields.int32())


def read_checkpoint(value: bytes) -> Checkpoint:
    """Return the checkpoint that these bytes are.

    Raises:
        InvalidRecord: they are malformed, or of a later version.
    """
    fields = FieldReader(value, "checkpoint")
    version = fields.int16()
    if version != VERSION:
        raise InvalidRecord(f"a checkpoint has version {version}; this worker knows version {VERSION}")
    return Checkpoint(fields.int64(), fields.int64(), fields.string())


class Checkpoints:
    """What the topic says.

    Attributes:
        found: the checkpoints by key.
        unreadable: how many records were passed over, as MirrorMaker's tools do, because they are no checkpoints.
    """

    def __init__(self) -> None:
        self.found: dict[CheckpointKey, Checkpoint] = {}
        self.unreadable = 0

    def apply(self, record: Record) -> None:
        """Take a record."""
        try:
            key = read_key(record.key or b"")
            checkpoint = None if record.value is None else read_checkpoint(record.value)
        except InvalidRecord:
            self.unreadable += 1
            return
        if checkpoint is None:
            self.found.pop(key, None)
        else:
            self.found[key] = checkpoint

    def clear(self) -> None:
        """Forget everything, as it comes again."""
        self.found.clear()
        self.unreadable = 0
