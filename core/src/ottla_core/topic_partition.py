"""The name of one partition."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A topic's name and a partition index; prints as Kafka names the partition's directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return for example ``flights-3``."""
        return f"{self.topic}-{self.partition}"
