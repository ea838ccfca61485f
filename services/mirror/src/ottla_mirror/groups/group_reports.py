"""The results of translating the groups of a flow, as plain values. Pure."""

from dataclasses import dataclass, field
from enum import Enum


class GroupState(Enum):
    """What the mirror does with a group.

    Attributes:
        SYNCED: the target's group has its offsets.
        ACTIVE_AT_TARGET: the target's group has members; it has its own offsets.
        CHECKPOINTED: its offsets are translated, into checkpoints only.
        FAILED: it could not be translated, for the reason that is told.
    """

    SYNCED = "SYNCED"
    ACTIVE_AT_TARGET = "ACTIVE_AT_TARGET"
    CHECKPOINTED = "CHECKPOINTED"
    FAILED = "FAILED"


@dataclass(slots=True, kw_only=True)
class GroupReport:
    """A group as it was last looked at.

    Attributes:
        reason: why it has failed; empty otherwise.
        translated_ms: when it was last translated, in milliseconds since the epoch; None for not yet.
        partitions: of how many its offset is known at the target.
    """

    state: GroupState
    reason: str = ""
    translated_ms: int | None = None
    partitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """A group's offset in one partition.

    Attributes:
        topic: at the source.
        remote_topic: at the target.
        partition: its number.
        source_offset: what the group has committed.
        target_offset: what that is at the target; None if nothing was copied yet.
        not_copied: offsets of the source before the group's that are not copied yet.
        source_not_copied: offsets up to the source's end that are not copied yet; None if that is not known.
        is_stored: whether the target's group has exactly this offset now.
    """

    topic: str
    remote_topic: str
    partition: int
    source_offset: int
    target_offset: int | None
    not_copied: int
    source_not_copied: int | None
    is_stored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """The result for one group that was to be translated now.

    Attributes:
        reason: why offsets were not stored at the target; empty if they were.
    """

    group: str
    is_stored: bool
    reason: str
    partitions: tuple[PartitionReport, ...] = field(default=())
