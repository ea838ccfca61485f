"""Publish and read with kafka-python: `python with_kafka_python.py [HOST:PORT]`.

Creates a topic, publishes 100 readings of ten sensors, and reads them in a consumer group until all are there.
"""

import sys
import uuid

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
TOPIC = f"readings-{uuid.uuid4().hex[:8]}"
READINGS = 100


def create_topic() -> None:
    """Create the topic with one replica, which any cluster can give."""
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    admin.create_topics([NewTopic(name=TOPIC, num_partitions=3, replication_factor=1)])
    admin.close()


def publish() -> None:
    """Publish, and wait until all in-sync replicas have every record."""
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, acks="all")
    sent = [
        producer.send(TOPIC, key=b"sensor-%d" % (number % 10), value=f"{20 + number / 10:.1f}".encode())
        for number in range(READINGS)
    ]
    for each in sent:
        each.get(timeout=30)
    producer.close()


def read() -> dict[str, list[str]]:
    """Read in a group, and commit what was read."""
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=BOOTSTRAP,
        group_id=f"{TOPIC}-readers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    readings: dict[str, list[str]] = {}
    for record in consumer:
        readings.setdefault(record.key.decode(), []).append(record.value.decode())
        if sum(map(len, readings.values())) == READINGS:
            break
    consumer.commit()
    consumer.close()
    return readings


create_topic()
publish()
by_sensor = read()
print(f"{sum(map(len, by_sensor.values()))} readings of {len(by_sensor)} sensors")
print(f"sensor-3: {', '.join(by_sensor['sensor-3'])}")
