"""A producer that writes numbered records all the time, and what became of each.

It is librdkafka's idempotent producer with acks=all, which tries again by itself; a record fails only if that does
not help. `longest_pause_s` is the longest time between two acknowledgements in a row, which is what a fault costs.
"""

import threading
import time
from collections.abc import Mapping
from itertools import pairwise
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.eventually import eventually

RECORD_INTERVAL_S = 0.005
DELIVERY_TIMEOUT_MS = 60_000
REQUEST_TIMEOUT_MS = 3000
READ_TIMEOUT_S = 1.0
UNTOLD = -1


class SteadyWriter:
    """Writes to one partition while it is open.

    `settings` are more of librdkafka's, such as those of a secured cluster.

    Attributes:
        acknowledged: the offset of each record that was acknowledged, by its number; `UNTOLD` for one that was sent
            again when it was in the log already, so that nobody says where.
        failures: the errors of those that were given up.
    """

    def __init__(
        self, bootstrap: str, topic: str, *, partition: int = 0, settings: Mapping[str, str] | None = None
    ) -> None:
        self.acknowledged: dict[int, int] = {}
        self.failures: list[KafkaError] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._partition = partition
        self._settings = dict(settings or {})
        self._times_s: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="steady writer")

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait_for_acknowledgements(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_acknowledgements(self, more: int, *, within_s: float = 60) -> None:
        """Waits until this many further records are acknowledged."""
        goal = len(self.acknowledged) + more
        eventually(lambda: len(self.acknowledged) >= goal, f"{more} more records are acknowledged", within_s=within_s)

    def longest_pause_s(self) -> float:
        """The longest time without an acknowledgement."""
        times_s = self._times_s
        return max(later - earlier for earlier, later in pairwise(times_s))

    def check_complete(self) -> None:
        """Checks that everything acknowledged is where it was said to be, in order and once; call it when closed."""
        stored = read_values(
            self._bootstrap,
            self._topic,
            self._partition,
            up_to=max(self.acknowledged.values()) + 1,
            settings=self._settings,
        )
        in_order = [int(value) for _, value in stored]
        numbers = set(in_order)
        assert in_order == sorted(numbers), "records are out of order or there twice"
        by_offset = dict(stored)
        lost = [
            (number, offset)
            for number, offset in self.acknowledged.items()
            if (number not in numbers if offset == UNTOLD else by_offset.get(offset) != str(number).encode())
        ]
        assert not lost, f"{len(lost)} acknowledged records are not where they were: {lost[:5]}"

    def _write(self) -> None:
        producer = Producer(
            {
                **self._settings,
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "topic.metadata.refresh.interval.ms": 1000,
                # A broker that hangs keeps what was sent to it for as long, a minute by default.
                "request.timeout.ms": REQUEST_TIMEOUT_MS,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
            }
        )
        number = 0
        while not self._stop.wait(RECORD_INTERVAL_S):
            self._send(producer, number)
            number += 1
            producer.poll(0)
        producer.flush(DELIVERY_TIMEOUT_MS / 1000)

    def _send(self, producer: Producer, number: int) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None:
                self.failures.append(error)
            else:
                self._times_s.append(time.monotonic())
                self.acknowledged[number] = UNTOLD if offset is None else offset

        producer.produce(self._topic, value=str(number).encode(), partition=self._partition, on_delivery=delivered)


def read_values(
    bootstrap: str, topic: str, partition: int = 0, *, up_to: int, settings: Mapping[str, str] | None = None
) -> list[tuple[int, bytes]]:
    """The offsets and values of a partition below an offset."""
    consumer = Consumer(
        {**(settings or {}), "bootstrap.servers": bootstrap, "group.id": "reading", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found: list[tuple[int, bytes]] = []

        def complete() -> bool:
            for message in consumer.consume(1000, READ_TIMEOUT_S):
                assert message.error() is None, message.error()
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert value is not None
                found.append((offset, value))
            return bool(found) and found[-1][0] >= up_to - 1

        eventually(complete, f"{topic}-{partition} is read up to {up_to}", within_s=60)
    finally:
        consumer.close()
    return [(offset, value) for offset, value in found if offset < up_to]
