"""Idempotent producers that write numbered records and note every acknowledgement, over any number of crashes.

A record's value is `producer:number`. The producers are librdkafka's: they retry by themselves until the broker is
back, and it is their sequence numbers that must keep retries from being stored twice.
"""

from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.clients.delivery_check import DeliveryLog, ReadRecord, Stream
from tests.support.eventually import eventually

DELIVERY_DEADLINE_S = 120.0
PAYLOAD = b"." * 200


class AcknowledgedLoad:
    """Some producers, each writing to every partition of one topic.

    Attributes:
        log: what was sent and acknowledged so far.
    """

    def __init__(self, bootstrap: str, topic: str, *, partitions: int, producers: int):
        self.log = DeliveryLog()
        self._topic = topic
        self._partitions = partitions
        self._failures: list[KafkaError] = []
        self._producers = [Producer(_producer_settings(bootstrap)) for _ in range(producers)]

    def send(self, records: int) -> None:
        """Hands this many records to every producer for every partition; does not wait."""
        for _ in range(records):
            for producer in range(len(self._producers)):
                for partition in range(self._partitions):
                    self._send_one(Stream(producer, partition))

    def wait_for_acknowledgements(self, more: int) -> None:
        """Waits until this many further records are acknowledged."""
        goal = self.log.acknowledged_count() + more
        what = f"{more} more records are acknowledged"
        eventually(lambda: self.serve_acknowledgements() >= goal, what, within_s=60)

    def finish(self) -> None:
        """Waits until everything sent is acknowledged."""
        for producer in self._producers:
            left = producer.flush(DELIVERY_DEADLINE_S)
            assert left == 0, f"{left} records were never acknowledged"
        assert not self._failures, self._failures[:3]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for producer in self._producers:
            producer.purge()
            producer.flush(5)

    def _send_one(self, stream: Stream) -> None:
        number = self.log.next_number(stream)

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None or offset is None:
                self._failures.append(error or KafkaError(KafkaError._FAIL))
            else:
                self.log.acknowledge(stream, number, offset)

        value = f"{stream.producer}:{number}:".encode() + PAYLOAD
        self._producers[stream.producer].produce(
            self._topic, value=value, partition=stream.partition, on_delivery=delivered
        )

    def serve_acknowledgements(self) -> int:
        """Notes the acknowledgements that have come; returns how many records are acknowledged."""
        for producer in self._producers:
            producer.poll(0)
        assert not self._failures, self._failures[:3]
        return self.log.acknowledged_count()


def read_everything(bootstrap: str, topic: str, *, partitions: int) -> list[ReadRecord]:
    """Every record of the topic, each partition from its beginning to the end it has now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-used",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 10,
        }
    )
    records: list[ReadRecord] = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        ended: set[int | None] = set()
        while len(ended) < partitions:
            batch = consumer.consume(10_000, timeout=0.2)
            for message in batch:
                error = message.error()
                if error is None:
                    records.append(_as_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise AssertionError(error)
    finally:
        consumer.close()
    return records


def _as_record(message: Message) -> ReadRecord:
    value, partition, offset = message.value(), message.partition(), message.offset()
    assert isinstance(value, bytes)
    assert partition is not None
    assert offset is not None
    producer, number, payload = value.split(b":", 2)
    assert payload == PAYLOAD
    return ReadRecord(Stream(int(producer), partition), int(number), offset)


def _producer_settings(bootstrap: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "linger.ms": 2,
        "batch.num.messages": 50,
        "delivery.timeout.ms": int(DELIVERY_DEADLINE_S * 1000),
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 200,
        "topic.metadata.refresh.fast.interval.ms": 50,
        "queue.buffering.max.messages": 1_000_000,
        "log_level": 0,
    }
