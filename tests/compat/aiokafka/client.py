"""aiokafka as a `ClientUnderTest`: each call runs an event loop of its own, so the suite reads like the others."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.compat.cases import Message, PublishCase

DEADLINE_S = 30.0
T = TypeVar("T")


class AioKafkaClient:
    """Producer and consumer of aiokafka."""

    sets_timestamps = True

    def can_publish(self, message: Message) -> bool:
        return (message.key, message.value) != (None, None)

    def publish(self, bootstrap: str, topic: str, case: PublishCase) -> None:
        asyncio.run(_publish(bootstrap, topic, case))

    def read(self, bootstrap: str, topic: str, partition: int, count: int) -> list[Message]:
        wanted = TopicPartition(topic, partition)

        async def consume(consumer: Any) -> list[Message]:
            consumer.assign([wanted])
            await consumer.seek_to_beginning(wanted)
            async with asyncio.timeout(DEADLINE_S):
                return [_as_message(await consumer.getone()) for _ in range(count)]

        return _with_consumer(bootstrap, consume)

    def beginning_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        wanted = TopicPartition(topic, partition)
        return int(_with_consumer(bootstrap, lambda consumer: consumer.beginning_offsets([wanted]))[wanted])

    def end_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        wanted = TopicPartition(topic, partition)
        return int(_with_consumer(bootstrap, lambda consumer: consumer.end_offsets([wanted]))[wanted])

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        wanted = TopicPartition(topic, partition)
        found = _with_consumer(bootstrap, lambda consumer: consumer.offsets_for_times({wanted: timestamp_ms}))[wanted]
        return None if found is None else int(found.offset)


async def _publish(bootstrap: str, topic: str, case: PublishCase) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        compression_type=None if case.codec == "none" else case.codec,
        enable_idempotence=case.idempotent,
        linger_ms=5,
        max_request_size=2_000_000,
    )
    await producer.start()
    try:
        deliveries = [
            await producer.send(
                topic,
                key=message.key,
                value=message.value,
                partition=message.partition,
                headers=list(message.headers),
                timestamp_ms=message.timestamp_ms,
            )
            for message in case.messages
        ]
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*deliveries)
    finally:
        await producer.stop()


def _with_consumer(bootstrap: str, use: Callable[[Any], Awaitable[T]]) -> T:
    async def run() -> T:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            max_partition_fetch_bytes=2_000_000,
        )
        await consumer.start()
        try:
            return await use(consumer)
        finally:
            await consumer.stop()

    return asyncio.run(run())


def _as_message(record: Any) -> Message:
    return Message(
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
        timestamp_ms=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )
