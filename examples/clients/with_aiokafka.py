"""Publish and read with aiokafka: `python with_aiokafka.py [HOST:PORT]`.

Creates a topic, publishes 100 readings of ten sensors, and reads them in a consumer group until all are there.
"""

import asyncio
import sys
import uuid

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
TOPIC = f"readings-{uuid.uuid4().hex[:8]}"
READINGS = 100


async def create_topic() -> None:
    """Create the topic with one replica, which any cluster can give."""
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name=TOPIC, num_partitions=3, replication_factor=1)])
    finally:
        await admin.close()


async def publish() -> None:
    """Publish with idempotence: what is sent again after a failure is stored once."""
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, enable_idempotence=True) as producer:
        sent = [
            await producer.send(TOPIC, key=b"sensor-%d" % (number % 10), value=f"{20 + number / 10:.1f}".encode())
            for number in range(READINGS)
        ]
        await asyncio.gather(*sent)


async def read() -> dict[str, list[str]]:
    """Read in a group, and commit what was read."""
    readings: dict[str, list[str]] = {}
    async with AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=BOOTSTRAP,
        group_id=f"{TOPIC}-readers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        async for record in consumer:
            readings.setdefault(record.key.decode(), []).append(record.value.decode())
            if sum(map(len, readings.values())) == READINGS:
                break
        await consumer.commit()
    return readings


async def main() -> None:
    """All of it."""
    await create_topic()
    await publish()
    by_sensor = await read()
    print(f"{sum(map(len, by_sensor.values()))} readings of {len(by_sensor)} sensors")
    print(f"sensor-3: {', '.join(by_sensor['sensor-3'])}")


asyncio.run(main())
