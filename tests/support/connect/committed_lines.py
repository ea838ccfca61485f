"""What readers of committed records see of topics while something else happens to them, and at the end."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.support.eventually import eventually

POLL_S = 0.2
READ_TIMEOUT_S = 30.0


def read_all(bootstrap: str, topics: Sequence[str], *, isolation: str = "read_committed") -> list[Message]:
    """Everything that topics have, up to the first transaction that is open."""
    consumer = _consumer(bootstrap, isolation)
    try:
        partitions = [
            TopicPartition(topic, number, 0)
            for topic in topics
            for number in consumer.list_topics(topic, timeout=READ_TIMEOUT_S).topics[topic].partitions
        ]
        consumer.assign(partitions)
        left = {(each.topic, each.partition) for each in partitions}
        found: list[Message] = []
        while left:
            message = consumer.poll(READ_TIMEOUT_S)
            assert message is not None, f"{left} were not read to their ends"
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard((message.topic() or "", message.partition() or 0))
        return found
    finally:
        consumer.close()


class CommittedCounts:
    """Follows topics, and counts what is committed.

    Args:
        bootstrap: of the cluster.
        topics: of which everything is read.
        value_of: what is counted of a record.
    """

    def __init__(self, bootstrap: str, topics: Sequence[str], value_of: Callable[[Message], object]) -> None:
        self._consumer = _consumer(bootstrap, "read_committed")
        self._topics = topics
        self._value_of = value_of
        self._counts: dict[str, Counter[object]] = {topic: Counter() for topic in topics}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="committed records", daemon=True)

    def of(self, topic: str) -> Counter[object]:
        """How often each value of a topic was seen."""
        return self._counts[topic].copy()

    def distinct(self, topic: str) -> int:
        """How many values of a topic were seen."""
        return len(self._counts[topic])

    def __enter__(self) -> Self:
        self._consumer.assign(
            [
                TopicPartition(topic, number, 0)
                for topic in self._topics
                for number in eventually(partial(self._partitions, topic), f"there is {topic}")
            ]
        )
        self._thread.start()
        return self

    def _partitions(self, topic: str) -> Sequence[int]:
        """The partitions of a topic; none while its first record is on its way."""
        return list(self._consumer.list_topics(topic, timeout=READ_TIMEOUT_S).topics[topic].partitions)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _follow(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                self._counts[message.topic() or ""][self._value_of(message)] += 1


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "observer",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
