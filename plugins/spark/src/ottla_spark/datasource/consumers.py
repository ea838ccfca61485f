"""Consumers for one range of offsets at a time, kept for the next range.

Spark uses a Python worker for one task after another. A pool in each worker keeps a few consumers with their
connections, so that a batch of a stream does not pay for new ones. A consumer that is lent out is not in the pool: no
two tasks share one.

A consumer can hang (`ottla_sdk/kafka/hung_consumers.py`). So one that has been quiet for a while is left to a thread
that waits for its end, and another one is made; and a process that hangs all the same ends, as Spark repeats its task
in another.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla_sdk.kafka.hung_consumers import close_within, ended_if_frozen
from ottla_spark.datasource.client_options import Settings
from ottla_spark.datasource.described_topics import described
from ottla_spark.datasource.errors import new_client

IDLE_MAX = 2
CLOSED_WITHIN_S = 5.0

# Read what the driver planned and nothing else; and buffer little more than a batch, as the rest of a
# topic may not be wanted at all. What users set as `kafka.…` comes on top of the second half.
FIXED = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
}
DEFAULTS = {
    "fetch.error.backoff.ms": 100,
    "fetch.queue.backoff.ms": 10,
    "isolation.level": "read_uncommitted",
    "log_level": 2,
    "queued.max.messages.kbytes": 16_384,
    "queued.min.messages": 20_000,
    "reconnect.backoff.max.ms": 1_000,
}


ADMIN_DEFAULTS = {"log_level": 2, "reconnect.backoff.max.ms": 1_000}


class RangeConsumer:
    """A consumer that reads one partition at a time, from the offset it is told.

    Attributes:
        last_error: what librdkafka reported last, for messages; empty if nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self.last_error = ""
        self._settings = settings
        self._consumer: Consumer | None = self._new_consumer()
        self._admin: AdminClient | None = None  # made when it is first asked something

    @property
    def _open(self) -> Consumer:
        assert self._consumer is not None, "it is not closed"
        return self._consumer

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Read on from this offset; what was read ahead elsewhere is dropped."""
        with ended_if_frozen():
            self._open.assign([TopicPartition(topic, partition, offset)])

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        """Return up to `count` messages as soon as there are that many, or what there is after `timeout_s`."""
        with ended_if_frozen():
            return self._open.consume(count, timeout_s)

    def bounds(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        """Return the earliest offset that there is and the one after the last.

        Raises:
            KafkaException: nobody answered in time, or there is no such partition.
        """
        with ended_if_frozen():
            low, high = self._open.get_watermark_offsets(TopicPartition(topic, partition), timeout_s, cached=False)
        return low, high

    def topic_id(self, admin_settings: Settings, topic: str, timeout_s: float) -> str:
        """Return the id of the topic that has this name; empty if there is none, or the cluster tells no ids.

        Raises:
            KafkaException: nobody answered in time.
        """
        if self._admin is None:
            self._admin = new_client(AdminClient, {**ADMIN_DEFAULTS, **admin_settings})
        with ended_if_frozen():
            return described(self._admin, [topic], timeout_s).ids.get(topic, "")

    def rest(self) -> None:
        """Read nothing until the next `seek`."""
        self.last_error = ""
        with ended_if_frozen():
            self._open.unassign()

    def renew(self) -> None:
        """Begin with new connections, and without a partition until the next `seek`."""
        self.close()
        self._consumer = self._new_consumer()

    def close(self) -> None:
        """Give up the connections."""
        consumer, self._consumer, self._admin = self._consumer, None, None
        if consumer is not None:
            close_within(consumer, CLOSED_WITHIN_S)

    def _new_consumer(self) -> Consumer:
        return new_client(Consumer, {**DEFAULTS, **self._settings, **FIXED, "error_cb": self._remember})

    def _remember(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.last_error:  # noqa: SLF001 - public
            self.last_error = error.str()


class ConsumerPool:
    """Keeps up to `idle_max` consumers that nobody uses, each with the settings it was made with."""

    def __init__(self, idle_max: int = IDLE_MAX) -> None:
        self._idle_max = idle_max
        self._idle: OrderedDict[int, tuple[Settings, RangeConsumer]] = OrderedDict()
        self._next_key = 0

    @contextmanager
    def lent(self, settings: Settings) -> Iterator[RangeConsumer]:
        """Yield a consumer with these settings that nobody else has; one that failed is not used again."""
        consumer = self._taken(settings) or RangeConsumer(settings)
        try:
            yield consumer
            consumer.rest()
        except BaseException:
            consumer.close()
            raise
        self._put_back(settings, consumer)

    def _taken(self, settings: Settings) -> RangeConsumer | None:
        for key, (others, consumer) in reversed(self._idle.items()):
            if others == settings:
                del self._idle[key]
                return consumer
        return None

    def _put_back(self, settings: Settings, consumer: RangeConsumer) -> None:
        self._idle[self._next_key] = (settings, consumer)
        self._next_key += 1
        while len(self._idle) > self._idle_max:
            _, (_, oldest) = self._idle.popitem(last=False)
            oldest.close()


POOL = ConsumerPool()
