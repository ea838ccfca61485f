"""A producer and a consumer at a steady pace on one partition, and the pauses that they notice.

The producer waits for all in-sync replicas (acks=all), is idempotent, and looks for a new leader quickly, so that
what is measured is the cluster's part of a pause and not the client's patience.
"""

import itertools
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition

SEND_INTERVAL_S = 0.005
JOIN_DEADLINE_S = 60.0
IMPATIENT = {
    "socket.connection.setup.timeout.ms": 1000,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "log_level": 0,
}


class SteadyClients:
    """Sends a record every few milliseconds and reads them all.

    Attributes:
        failures: errors that the producer reported to its user.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.failures: list[str] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._ending = threading.Event()
        self._acknowledged: list[tuple[float, float]] = []
        self._received_s: list[float] = []
        self._threads = [
            threading.Thread(target=self._produce, name="producer", daemon=True),
            threading.Thread(target=self._consume, name="consumer", daemon=True),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(JOIN_DEADLINE_S)

    def first_acknowledged_s(self, sent_from_s: float) -> float | None:
        """Return when the first record that was sent after a moment was acknowledged, if one was yet."""
        acknowledged = [answered_s for sent_s, answered_s in tuple(self._acknowledged) if sent_s >= sent_from_s]
        return min(acknowledged, default=None)

    def produce_pause_s(self, from_s: float, until_s: float) -> float:
        """Return the longest time without an acknowledgement within a span."""
        return longest_pause_s([answered_s for _, answered_s in tuple(self._acknowledged)], from_s, until_s)

    def consume_pause_s(self, from_s: float, until_s: float) -> float:
        """Return the longest time without a record that was read within a span."""
        return longest_pause_s(tuple(self._received_s), from_s, until_s)

    def acknowledged_count(self, from_s: float, until_s: float) -> int:
        """Return how many records were acknowledged within a span."""
        return sum(from_s <= answered_s <= until_s for _, answered_s in tuple(self._acknowledged))

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 0, **IMPATIENT}
        )
        while not self._ending.wait(SEND_INTERVAL_S):
            producer.poll(0)
            try:
                producer.produce(self._topic, b"record", partition=0, on_delivery=self._delivery(time.monotonic()))
            except BufferError:
                producer.poll(0.1)
        producer.flush(JOIN_DEADLINE_S / 2)

    def _delivery(self, sent_s: float):  # type: ignore[no-untyped-def] # noqa: ANN202 - the library's own callback type
        def answered(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                self._acknowledged.append((sent_s, time.monotonic()))
            else:
                self.failures.append(error.name())

        return answered

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "none", "enable.auto.commit": False}
        consumer = Consumer({**settings, "fetch.wait.max.ms": 100, "fetch.error.backoff.ms": 20, **IMPATIENT})
        consumer.assign([TopicPartition(self._topic, 0, OFFSET_END)])
        while not self._ending.is_set():
            messages = consumer.consume(1000, 0.1)
            if any(message.error() is None for message in messages):
                self._received_s.append(time.monotonic())
        consumer.close()


def longest_pause_s(moments: Sequence[float], from_s: float, until_s: float) -> float:
    """Return the longest time between two neighbouring moments of a span, its ends included."""
    inside = [from_s, *sorted(moment for moment in moments if from_s < moment < until_s), until_s]
    return max(later - earlier for earlier, later in itertools.pairwise(inside))
