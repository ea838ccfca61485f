"""confluent-kafka (librdkafka) as a `ClientUnderTest`.

A librdkafka consumer insists on a `group.id`; with `assign` and automatic commits off it never asks for a
coordinator, so the suites need no consumer groups.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as ConfluentMessage

from tests.compat.cases import Message, PublishCase

DEADLINE_S = 30.0
T = TypeVar("T")


class ConfluentClient:
    """Producer and consumer of confluent-kafka."""

    sets_timestamps = True

    def can_publish(self, message: Message) -> bool:
        return True

    def publish(self, bootstrap: str, topic: str, case: PublishCase) -> None:
        failures: list[KafkaError] = []
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": case.codec,
                "enable.idempotence": case.idempotent,
                "linger.ms": 5,
                "message.max.bytes": 2_000_000,
            }
        )
        for message in case.messages:
            producer.produce(
                topic,
                key=message.key,
                value=message.value,
                partition=message.partition,
                headers=list(message.headers),
                timestamp=message.timestamp_ms or 0,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(DEADLINE_S) == 0, "not every message was acknowledged"
        assert not failures, failures

    def read(self, bootstrap: str, topic: str, partition: int, count: int) -> list[Message]:
        received: list[Message] = []

        def consume(consumer: Consumer) -> None:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            deadline = time.monotonic() + DEADLINE_S
            while len(received) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(received), timeout=0.5):
                    assert message.error() is None, message.error()
                    received.append(_as_message(message))

        _with_consumer(bootstrap, consume)
        return received

    def beginning_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        return self._watermarks(bootstrap, topic, partition)[0]

    def end_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        return self._watermarks(bootstrap, topic, partition)[1]

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        def look_up(consumer: Consumer) -> int:
            found = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp_ms)], DEADLINE_S)[0]
            assert found.error is None, found.error
            return int(found.offset)

        offset = _with_consumer(bootstrap, look_up)
        return None if offset < 0 else offset

    def _watermarks(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        def look_up(consumer: Consumer) -> tuple[int, int]:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), DEADLINE_S)
            return low, high

        return _with_consumer(bootstrap, look_up)


def _with_consumer(bootstrap: str, use: Callable[[Consumer], T]) -> T:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "not-used", "enable.auto.commit": False, "check.crcs": True}
    )
    try:
        return use(consumer)
    finally:
        consumer.close()


def _as_message(message: ConfluentMessage) -> Message:
    headers: Any = message.headers() or []
    return Message(
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=tuple((name, value) for name, value in headers),
        timestamp_ms=message.timestamp()[1],
        partition=message.partition() or 0,
        offset=message.offset(),
    )


def _bytes(data: Any) -> bytes | None:
    assert data is None or isinstance(data, bytes)
    return data
