"""Feeding topics at a steady rate while processes die, and reading what is committed in them."""

import threading
import time
from collections.abc import Iterable
from itertools import chain, islice
from typing import NamedTuple, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.support.eventually import eventually

DELIVERY_DEADLINE_S = 180.0
READ_DEADLINE_S = 120.0
FEED_INTERVAL_S = 0.05
COMMON = {
    "reconnect.backoff.max.ms": 500,
    # After its re-bootstrap librdkafka 2.16 sometimes asks no broker any more.
    "metadata.recovery.strategy": "none",
}


class Record(NamedTuple):
    """A record of a topic."""

    key: str
    value: str


class Feed(NamedTuple):
    """A record for a partition of a topic."""

    topic: str
    partition: int
    record: Record


class Feeder(threading.Thread):
    """Writes records in their order, each exactly once, at a steady rate.

    Attributes:
        fed: how many have been handed over to the producer.

    Args:
        feeds: what it writes; may be without end, for `stop`.
    """

    def __init__(self, bootstrap: str, feeds: Iterable[Feed], rate_per_s: float):
        super().__init__(name="feeder", daemon=True)
        self.fed = 0
        self._feeds = iter(feeds)
        self._rate_per_s = rate_per_s
        self._failures: list[KafkaError] = []
        self._ending = threading.Event()
        self._producer = Producer(
            {
                **COMMON,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": int(DELIVERY_DEADLINE_S * 1000),
                "log_level": 0,
            }
        )

    def run(self) -> None:
        begun_s = time.monotonic()
        while not self._ending.wait(FEED_INTERVAL_S):
            self._feed(islice(self._feeds, max(0, int((time.monotonic() - begun_s) * self._rate_per_s) - self.fed)))
            self._producer.poll(0)

    def stop(self) -> None:
        """Waits until all that was written is acknowledged."""
        self._ending.set()
        self.join()
        left = self._producer.flush(DELIVERY_DEADLINE_S)
        assert not left, f"{left} records were not acknowledged"
        assert not self._failures, self._failures[:3]

    def finish(self) -> None:
        """Writes the rest at once, and waits until all is acknowledged."""
        self._ending.set()
        self.join()
        self._feed(self._feeds)
        self.stop()

    def _feed(self, feeds: Iterable[Feed]) -> None:
        for topic, partition, record in feeds:
            self._producer.produce(
                topic, value=record.value, key=record.key, partition=partition, on_delivery=self._delivered
            )
            self.fed += 1

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)


class CommittedReader:
    """Follows the committed records of a topic.

    Attributes:
        records: of each partition, as far as they are read.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int):
        self.records: dict[int, list[Record]] = {number: [] for number in range(partitions)}
        self._topic = topic
        self._ended: set[int] = set()
        self._consumer = Consumer(
            {
                **COMMON,
                "bootstrap.servers": bootstrap,
                "group.id": "not-used",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in self.records])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def count(self) -> int:
        """How many records have been read."""
        return sum(map(len, self.records.values()))

    def read(self) -> None:
        """Takes what has come."""
        for message in self._consumer.consume(10_000, timeout=0.2):
            partition, error = message.partition(), message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    assert partition is not None
                    self._ended.add(partition)
                continue
            key, value = message.key(), message.value()
            assert partition is not None
            assert isinstance(value, bytes)
            self._ended.discard(partition)
            self.records[partition].append(Record(key.decode() if isinstance(key, bytes) else "", value.decode()))

    def read_until(self, count: int, *, within_s: float) -> None:
        """Reads on until there are so many records at least."""

        def is_there() -> bool:
            self.read()
            return self.count >= count

        eventually(is_there, f"{self._topic} has {count} records", within_s=within_s)

    def read_to_ends(self) -> None:
        """Reads on to the last stable offset of each partition."""

        def is_at_ends() -> bool:
            self.read()
            return self._ended == set(self.records)

        eventually(is_at_ends, f"{self._topic} is read to its ends", within_s=READ_DEADLINE_S)


def committed_records(bootstrap: str, topic: str, partitions: int) -> dict[int, list[Record]]:
    """All committed records of a topic, by partition."""
    with CommittedReader(bootstrap, topic, partitions) as reader:
        reader.read_to_ends()
        return reader.records


def nothing_is_open(bootstrap: str, topics: Iterable[str], partitions: int) -> bool:
    """Whether every partition is stable to its end."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for topic in topics for number in range(partitions)}

    def ends(level: IsolationLevel) -> dict[tuple[str, int], int]:
        told = admin.list_offsets(wanted, isolation_level=level, request_timeout=30)
        return {(each.topic, each.partition): future.result().offset for each, future in told.items()}

    try:
        return ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED)
    except KafkaException:
        return False


def all_of(records: dict[int, list[Record]]) -> list[Record]:
    """The records of all partitions."""
    return list(chain.from_iterable(records.values()))
