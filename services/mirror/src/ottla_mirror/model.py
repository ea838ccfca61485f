"""What mirroring is about, as plain values. Pure."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePartition:
    """A partition of the source, in one life of its topic: a topic that is created anew has another id.

    Attributes:
        topic: its name at the source.
        topic_id: at the source; the zero UUID where the source is older than topic ids (Kafka 2.8).
        partition: its number, which is the same at the target.
    """

    topic: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
