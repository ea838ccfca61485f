"""Records that a sink task could not take for now, and when it is asked again. Pure.

Kafka Connect leaves the pause to the task (`SinkTaskContext.timeout`); where a task says nothing, pauses double here.
"""

from collections.abc import Collection

from ottla_sdk import SinkRecord, TopicPartition

PAUSE_FIRST_S = 0.3
PAUSE_MAX_S = 30.0


class Redelivery:
    """The batch that is to be put again.

    Attributes:
        records: the batch; empty if there is none.
        due_s: when to put it again.
    """

    def __init__(self) -> None:
        self.records: list[SinkRecord] = []
        self.due_s = 0.0
        self._active = False
        self._pause_s = PAUSE_FIRST_S

    def __bool__(self) -> bool:
        return self._active

    def keep(self, records: list[SinkRecord], now_s: float, asked_pause_s: float | None) -> None:
        """Keep a batch that has failed, again or for the first time.

        Args:
            records: the batch.
            now_s: the time, by a monotonic clock.
            asked_pause_s: how long the task asked to wait, None if it did not.
        """
        self._active = True
        self.records = records
        self.due_s = now_s + (self._pause_s if asked_pause_s is None else asked_pause_s)
        self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the records of these partitions: somebody else gets them, or they are read again."""
        self.records = [each for each in self.records if each.origin not in partitions]

    def done(self) -> None:
        """The batch was put."""
        self._active = False
        self.records = []
        self._pause_s = PAUSE_FIRST_S
