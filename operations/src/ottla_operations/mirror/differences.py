"""What a comparison of two partitions finds. Data only. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """In what a target differs from its source."""

    MISSING = "missing at the target"
    EXTRA = "only at the target"
    REPEATED = "repeated at the target"
    RECORD = "other record"
    KEY = "other key"
    VALUE = "other value"
    HEADERS = "other headers"
    TIMESTAMP = "other timestamp"
    OFFSET = "other offset"
    BYTES = "other bytes"
    LEADER_EPOCH = "other leader epoch"
    CORRUPT = "corrupt"
    START = "other first offset"
    TOPIC = "no such topic"
    PARTITION = "no such partition"


class State(StrEnum):
    """How a partition stands."""

    EQUAL = "equal"
    BEHIND = "behind"
    DIFFERENT = "different"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where two partitions first differ.

    Attributes:
        source_offset: of the first record or batch concerned; None where there is none at the source.
        target_offset: likewise at the target.
        detail: the values of both sides, in words.
    """

    kind: Kind
    source_offset: int | None = None
    target_offset: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        places = [
            f"{side} offset {offset}"
            for side, offset in (("source", self.source_offset), ("target", self.target_offset))
            if offset is not None
        ]
        return ", ".join([*places, f"{self.kind}: {self.detail}" if self.detail else str(self.kind)])


@dataclass(slots=True, kw_only=True)
class PartitionOutcome:
    """What was found for one partition.

    Attributes:
        topic: its name at the source.
        target_topic: its name at the target.
        records: how many were compared; of compacted topics, the keys.
        source_start: where the comparison began at the source, an offset.
        source_end: up to which offset the source was read.
        behind_records: how many offsets of the source are not at the target yet.
        notes: what is no difference but worth to know.
        difference: the first one, if there is any.
        problem: why it could not be compared, if so.
    """

    topic: str
    target_topic: str
    partition: int
    records: int = 0
    batches: int = 0
    source_start: int = 0
    source_end: int = 0
    behind_records: int = 0
    notes: list[str] = field(default_factory=list)
    difference: Difference | None = None
    problem: str | None = None

    @property
    def state(self) -> State:
        """How it stands."""
        if self.problem is not None:
            return State.UNREADABLE
        if self.difference is not None:
            return State.DIFFERENT
        return State.BEHIND if self.behind_records else State.EQUAL
