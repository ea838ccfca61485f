"""Publish and read with confluent-kafka: `python with_confluent_kafka.py [HOST:PORT]`.

Creates a topic, publishes 100 readings of ten sensors, and reads them in a consumer group until all are there.
"""

import sys
import uuid

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
TOPIC = f"readings-{uuid.uuid4().hex[:8]}"
READINGS = 100


def create_topic() -> None:
    """Create the topic, with the cluster's default number of replicas."""
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})  # has to live until the answer is there
    admin.create_topics([NewTopic(TOPIC, num_partitions=3)])[TOPIC].result()


def delivered(error: KafkaError | None, message: Message) -> None:
    """What became of a record: every one has to be acknowledged."""
    if error is not None:
        raise SystemExit(f"{message.key()!r} was not stored: {error}")


def publish() -> None:
    """Publish with idempotence: what is sent again after a failure is stored once."""
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True})
    for number in range(READINGS):
        producer.produce(TOPIC, key=f"sensor-{number % 10}", value=f"{20 + number / 10:.1f}", on_delivery=delivered)
        producer.poll(0)
    producer.flush()


def read() -> dict[str, list[str]]:
    """Read in a group, and commit what was read."""
    consumer = Consumer({
        "bootstrap.servers": BOOTSTRAP, "group.id": f"{TOPIC}-readers", "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    })  # fmt: skip
    consumer.subscribe([TOPIC])
    readings: dict[str, list[str]] = {}
    try:
        while sum(map(len, readings.values())) < READINGS:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise SystemExit(f"reading failed: {message.error()}")
            readings.setdefault(message.key().decode(), []).append(message.value().decode())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return readings


create_topic()
publish()
by_sensor = read()
print(f"{sum(map(len, by_sensor.values()))} readings of {len(by_sensor)} sensors")
print(f"sensor-3: {', '.join(by_sensor['sensor-3'])}")
