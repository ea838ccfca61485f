"""Values that a client has published with acks=all, and what another one finds of them."""

from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

CLIENT_S = 120


@dataclass
class AcknowledgedValues:
    """A topic's values that were acknowledged.

    Attributes:
        bootstrap: brokers.
        topic: the topic, which is made by the first value.
        values: those that were acknowledged.
    """

    bootstrap: str
    topic: str
    values: list[str] = field(default_factory=list)

    def publish(self, *values: str) -> None:
        """Publishes values; each has to be acknowledged in the end."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "enable.idempotence": True})
        refused: list[Any] = []
        for value in values:
            producer.produce(self.topic, value, on_delivery=lambda error, _: refused.append(error) if error else None)
        assert producer.flush(CLIENT_S) == 0
        assert not refused
        self.values += values

    def missing(self) -> set[str]:
        """Those that a consumer does not find."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "finder", "enable.auto.commit": False})
        try:
            partitions = [
                TopicPartition(self.topic, number)
                for number in consumer.list_topics(self.topic, CLIENT_S).topics[self.topic].partitions
            ]
            expected = 0
            for partition in partitions:
                partition.offset, end = consumer.get_watermark_offsets(partition, CLIENT_S)
                expected += end - partition.offset
            consumer.assign(partitions)
            found: list[str] = []
            while len(found) < expected:
                message = consumer.poll(CLIENT_S)
                assert message is not None, f"read {len(found)} of {expected}"
                assert message.error() is None, message.error()
                found.append((message.value() or b"").decode())
        finally:
            consumer.close()
        return {*self.values} - {*found}
