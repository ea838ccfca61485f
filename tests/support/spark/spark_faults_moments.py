"""The moment for a fault: an output is in the middle of a batch, and has written something that does not count yet.

A query notes where a batch ends in its checkpoint's `offsets`, does it, and notes in `commits` that it is done.
"""

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

ANSWER_TIMEOUT_S = 5.0


def latest_batch(folder: Path) -> int:
    """The highest number that is the name of a file; -1 if there is none."""
    return max((int(path.name) for path in folder.glob("*") if path.name.isdecimal()), default=-1)


class Moment:
    """Looks at one output until the moment has come."""

    def __init__(self, checkpoint: Path, written: Callable[[], int]) -> None:
        """Prepare; `written` says how much the output has written, counting what does not count yet."""
        self._checkpoint = checkpoint
        self._written = written
        self._batch = -1
        self._before = 0

    def has_come(self) -> bool:
        """Whether a batch is under way and something of it is written."""
        begun = latest_batch(self._checkpoint / "offsets")
        if begun <= latest_batch(self._checkpoint / "commits"):
            return False
        written = self._written()
        if begun != self._batch:
            self._batch, self._before = begun, written
        return written > self._before


def file_count(table: Path) -> int:
    """How many files of rows there are, also those that no batch counts."""
    return sum(1 for _ in table.glob("*.parquet"))


class TopicEnd:
    """Asks where a topic ends."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looking", "log_level": 2})
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._last = 0

    def record_count(self) -> int:
        """How many records there are; as many as the last time while a broker does not answer."""
        try:
            marks = [self._consumer.get_watermark_offsets(each, ANSWER_TIMEOUT_S) for each in self._partitions]
        except KafkaException:
            return self._last
        self._last = sum(end for _, end in marks)
        return self._last

    def close(self) -> None:
        self._consumer.close()
