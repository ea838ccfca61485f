"""Consumers of a test's own that read everything connectors write: the topics of sources, and the offsets topic.

It reads all the time, with partitions assigned by itself, so that it depends on no group and misses nothing.
"""

import json
import threading
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from tests.support.connect.connect_delivery import AppendResult, Committed, Origin, SourceTaskId
from tests.support.eventually import eventually

BATCH = 1000
TIMEOUT_S = 0.2
METADATA_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 10.0


class ConnectObserver:
    """Reads while it is open.

    Attributes:
        appended: the records of sources, in the order of their reading.
        committed: the source offsets, likewise.
        origins: where every record of a source stands, by topic.
    """

    def __init__(self, bootstrap: str, *, connectors: dict[str, str], offsets_topic: str) -> None:
        """Prepare; `connectors` has the source that writes to each topic."""
        self.appended: list[AppendResult] = []
        self.committed: list[Committed] = []
        self.origins: dict[str, list[Origin]] = {topic: [] for topic in connectors}
        self._connectors = connectors
        self._offsets_topic = offsets_topic
        self._highest: dict[SourceTaskId, int] = {}
        self._writers: set[int] = set()
        self._read_up_to: dict[tuple[str, int], int] = {}
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "connect-observer",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "topic.metadata.refresh.interval.ms": 1000,
            # A broker that hangs or restarts keeps a request for as long.
            "socket.timeout.ms": 5000,
            "log_level": 2,  # not every connection that a restarted broker has closed
        }
        self._thread = threading.Thread(target=self._run, name="connect observer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(CLOSE_TIMEOUT_S)

    def count(self, topic: str) -> int:
        """How many records of a topic were read."""
        self._check()
        return len(self.origins[topic])

    def highest(self) -> dict[SourceTaskId, int]:
        """The highest position of each task so far."""
        self._check()
        return dict(self._highest)

    def has_seen(self, pid: int) -> bool:
        """Whether a record of this process was read."""
        return pid in self._writers

    def catch_up(self) -> None:
        """Waits until everything that is in the topics now was read."""
        asking = Consumer(self._settings)
        ends = {
            where: asking.get_watermark_offsets(TopicPartition(*where), METADATA_TIMEOUT_S)[1]
            for where in self._partitions(asking)
        }
        asking.close()

        def has_caught_up() -> bool:
            self._check()
            return all(self._read_up_to.get(where, 0) >= end for where, end in ends.items())

        eventually(has_caught_up, "all records were read", within_s=60)

    def _check(self) -> None:
        if self._failure is not None:
            raise AssertionError("the observer has failed") from self._failure

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        try:
            self._read(consumer)
        except BaseException as error:  # noqa: BLE001 - told to the test by its next question
            self._failure = error
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> None:
        assigned: set[tuple[str, int]] = set()
        while not self._stop.is_set():
            if {topic for topic, _ in assigned} != {*self._connectors, self._offsets_topic}:
                new = self._new_partitions(consumer, assigned)
                consumer.incremental_assign([TopicPartition(*each, OFFSET_BEGINNING) for each in new])
                assigned |= new
            for message in consumer.consume(BATCH, TIMEOUT_S):
                if (error := message.error()) is None:
                    self._take(message)
                elif error.fatal():
                    raise AssertionError(error)

    def _new_partitions(self, consumer: Consumer, assigned: set[tuple[str, int]]) -> set[tuple[str, int]]:
        """Partitions that are not read yet; none while no broker tells."""
        try:
            return self._partitions(consumer) - assigned
        except KafkaException:
            return set()

    def _partitions(self, consumer: Consumer) -> set[tuple[str, int]]:
        wanted = {*self._connectors, self._offsets_topic}
        topics = consumer.list_topics(timeout=METADATA_TIMEOUT_S).topics
        return {(name, number) for name in wanted & set(topics) for number in topics[name].partitions}

    def _take(self, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        _, append_ms = message.timestamp()
        value = message.value()
        if topic == self._offsets_topic:
            key = message.key()
            assert key is not None
            connector, source_partition = json.loads(key)
            if value is not None:
                task = SourceTaskId(connector, source_partition["list"])
                self.committed.append(Committed(task, json.loads(value)["position"], append_ms))
        else:
            assert value is not None
            record = json.loads(value)
            task = SourceTaskId(self._connectors[topic], record["task"])
            self.origins[topic].append(Origin(topic, partition, offset))
            self.appended.append(AppendResult(task, record["position"], record["pid"], append_ms))
            self._writers.add(record["pid"])
            self._highest[task] = max(record["position"], self._highest.get(task, -1))
        self._read_up_to[topic, partition] = offset + 1
