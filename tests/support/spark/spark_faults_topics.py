"""The input of a job on Spark, which a writer fills steadily, and what is in a topic in the end.

The writer takes keys in turn; the numbers of each key count up. It is librdkafka's idempotent producer with acks=all,
which tries again by itself, so faults of brokers cost no record.
"""

import json
import threading
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.eventually import eventually
from tests.support.spark.spark_faults_delivery import Arrived, Place, Row

KEYS = 24
RECORD_INTERVAL_S = 0.01
PAYLOAD = "payload of {key} and {number}, " * 3
DELIVERY_TIMEOUT_MS = 60_000
REQUEST_TIMEOUT_MS = 3000
READ_BATCH = 5000
READ_TIMEOUT_S = 0.5
READ_DEADLINE_S = 60.0
ROW_SCHEMA = "key STRING, number BIGINT, payload STRING"
"""The columns of a record's value, as Spark has them."""
PLACE_COLUMNS = ("origin_partition", "origin_offset")
"""What jobs call the place of the input record in what they make of it."""


class KeyedWriter:
    """Writes while it is open.

    Attributes:
        acknowledged: what was acknowledged, by its place.
        failures: the errors of records that were given up.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: dict[Place, Row] = {}
        self.failures: list[KafkaError] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="keyed writer")

    def __enter__(self) -> Self:
        self._thread.start()
        eventually(lambda: self.acknowledged, "the first record is acknowledged")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 50,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "topic.metadata.refresh.interval.ms": 1000,
                # A broker that hangs keeps what was sent to it for as long, a minute by default.
                "request.timeout.ms": REQUEST_TIMEOUT_MS,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                "log_level": 2,  # not every connection that a killed broker has closed
            }
        )
        count = 0
        while not self._stop.wait(RECORD_INTERVAL_S):
            self._send(producer, f"key-{count % KEYS}", count // KEYS)
            count += 1
            producer.poll(0)
        producer.flush(DELIVERY_TIMEOUT_MS / 1000)

    def _send(self, producer: Producer, key: str, number: int) -> None:
        row = Row(key, number, PAYLOAD.format(key=key, number=number))

        def delivered(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is not None or partition is None or offset is None:
                self.failures.append(error or KafkaError(KafkaError._FAIL))
            else:
                self.acknowledged[Place(partition, offset)] = row

        producer.produce(self._topic, key=key.encode(), value=json.dumps(row._asdict()), on_delivery=delivered)


def read_input(bootstrap: str, topic: str) -> dict[Place, Row]:
    """All that is in the input topic."""
    return {
        Place(partition, offset): _row(json.loads(value))
        for partition, records in read_topic(bootstrap, topic).items()
        for offset, _, value in records
    }


def read_copy(bootstrap: str, topic: str, *, isolation: str = "read_uncommitted") -> dict[int, list[Arrived]]:
    """All that is in an output topic, by partition, in the order of the offsets."""
    copied: dict[int, list[Arrived]] = {}
    for partition, records in read_topic(bootstrap, topic, isolation=isolation).items():
        for _, key, value in records:
            document = json.loads(value)
            assert key == document["key"].encode(), f"a record of {document['key']} has the key {key!r}"
            arrived = Arrived(Place(*(document[column] for column in PLACE_COLUMNS)), _row(document))
            copied.setdefault(partition, []).append(arrived)
    return copied


def read_topic(
    bootstrap: str, topic: str, *, isolation: str = "read_uncommitted"
) -> dict[int, list[tuple[int, bytes | None, bytes]]]:
    """Offsets, keys and values of every partition, up to where they end now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reading",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=READ_DEADLINE_S).topics[topic].partitions
        found: dict[int, list[tuple[int, bytes | None, bytes]]] = {number: [] for number in partitions}
        ends = {number: _end(consumer, TopicPartition(topic, number)) for number in partitions}
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        positions = dict.fromkeys(partitions, 0)

        def complete() -> bool:
            for message in consumer.consume(READ_BATCH, READ_TIMEOUT_S):
                partition, offset, error = message.partition(), message.offset(), message.error()
                assert partition is not None
                assert offset is not None
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    positions[partition] = offset  # behind markers, too
                    continue
                positions[partition] = offset + 1
                value = message.value()
                assert value is not None
                if offset < ends[partition]:
                    found[partition].append((offset, message.key(), value))
            return all(positions[number] >= end for number, end in ends.items())

        eventually(complete, f"{topic} is read", within_s=READ_DEADLINE_S)
    finally:
        consumer.close()
    return found


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    _, end = consumer.get_watermark_offsets(partition, READ_DEADLINE_S)
    return int(end)


def _row(document: dict[str, object]) -> Row:
    return Row(str(document["key"]), int(str(document["number"])), str(document["payload"]))
