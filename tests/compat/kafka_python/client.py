"""kafka-python as a `ClientUnderTest`; consumers have no group (`group_id=None`) and are assigned by hand."""

from collections.abc import Callable
from typing import Any, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.compat.cases import Message, PublishCase

DEADLINE_S = 30.0
POLL_MS = 500
T = TypeVar("T")


class KafkaPythonClient:
    """Producer and consumer of kafka-python."""

    sets_timestamps = True

    def can_publish(self, message: Message) -> bool:
        has_content = (message.key, message.value) != (None, None)
        return has_content and all(value is not None for _, value in message.headers)

    def publish(self, bootstrap: str, topic: str, case: PublishCase) -> None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            compression_type=None if case.codec == "none" else case.codec,
            enable_idempotence=case.idempotent,
            linger_ms=5,
            max_request_size=2_000_000,
        )
        try:
            deliveries = [
                producer.send(
                    topic,
                    key=message.key,
                    value=message.value,
                    partition=message.partition,
                    headers=list(message.headers),
                    timestamp_ms=message.timestamp_ms,
                )
                for message in case.messages
            ]
            for delivery in deliveries:
                delivery.get(timeout=DEADLINE_S)
        finally:
            producer.close(timeout=DEADLINE_S)

    def read(self, bootstrap: str, topic: str, partition: int, count: int) -> list[Message]:
        wanted = TopicPartition(topic, partition)

        def consume(consumer: Any) -> list[Message]:
            consumer.assign([wanted])
            consumer.seek_to_beginning(wanted)
            received: list[Message] = []
            for _ in range(int(DEADLINE_S * 1000 / POLL_MS)):
                received += [_as_message(record) for record in consumer.poll(POLL_MS).get(wanted, [])]
                if len(received) >= count:
                    break
            return received

        return _with_consumer(bootstrap, consume)

    def beginning_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        wanted = TopicPartition(topic, partition)
        return int(_with_consumer(bootstrap, lambda consumer: consumer.beginning_offsets([wanted])[wanted]))

    def end_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        wanted = TopicPartition(topic, partition)
        return int(_with_consumer(bootstrap, lambda consumer: consumer.end_offsets([wanted])[wanted]))

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        wanted = TopicPartition(topic, partition)
        found = _with_consumer(bootstrap, lambda consumer: consumer.offsets_for_times({wanted: timestamp_ms})[wanted])
        return None if found is None else int(found.offset)


def _with_consumer(bootstrap: str, use: Callable[[Any], T]) -> T:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, max_partition_fetch_bytes=2_000_000
    )
    try:
        return use(consumer)
    finally:
        consumer.close()


def _as_message(record: Any) -> Message:
    return Message(
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
        timestamp_ms=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )
