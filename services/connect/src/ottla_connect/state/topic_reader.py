"""A thread that follows a topic's partitions with a consumer of its own, and hands what it reads to the event loop.

It hands over a batch at a time and waits until that is dealt with: the next one could outgrow memory otherwise. A
consumer can stop giving anything, or hang (`ottla_sdk.kafka.hung_consumers`), and nothing but a thread that is left
to itself can be done about it. So a reader is never mended: it is given up, which it may hear of or not, and whoever
needs the topic starts another one where this one has come to. What a reader hands over after that is refused.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from ottla_connect.state.kafka_clients import PARTITION_EOF, reason_of
from ottla_connect.state.keyed_log import Entry, LogError
from ottla_core.background import start_thread
from ottla_sdk.kafka.hung_consumers import close_within

POLL_S = 0.2
BATCH_SIZE_MAX = 1000
RETRY_S = 1.0
CLOSED_WITHIN_S = 5.0

log = structlog.get_logger("internal topics")


class Read(NamedTuple):
    """What the consumer said of a partition: a record, that its end is reached, or an error."""

    partition: int
    position: int
    entry: Entry | None
    error: KafkaError | None


class TopicReader:
    """Reads a topic from given positions on.

    Args:
        topic: its name.
        positions: where to begin, by partition.
        make_consumer: makes the consumer; what it is given is to be called with the client's errors.
        on_batch: takes what was read, in the event loop.
        on_error: takes the client's errors, in the event loop.

    Attributes:
        since_s: when it was started, on the monotonic clock.
    """

    def __init__(
        self,
        topic: str,
        positions: Mapping[int, int],
        *,
        make_consumer: Callable[[Callable[[KafkaError], None]], Consumer],
        on_batch: Callable[[Sequence[Read]], None],
        on_error: Callable[[KafkaError], None],
    ) -> None:
        self.since_s = time.monotonic()
        self._topic = topic
        self._positions = dict(positions)
        self._make_consumer = make_consumer
        self._on_batch = on_batch
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._given_up = threading.Event()
        self._dealt_with = threading.Event()
        self._thread = start_thread("reader of a topic", self._run, name=f"reader of {topic}")

    def give_up(self) -> None:
        """Take nothing from it any more; it ends by itself if it can."""
        self._given_up.set()
        self._dealt_with.set()

    async def end(self) -> None:
        """Wait until a reader that was given up has ended, but not for ever."""
        await asyncio.to_thread(self._thread.join, CLOSED_WITHIN_S)

    # In the thread.

    def _run(self) -> None:
        consumer = self._consumer()
        if consumer is None:
            return
        try:
            self._read(consumer)
        finally:
            if not close_within(consumer, CLOSED_WITHIN_S):
                log.warning("a consumer hangs, and is left to itself", topic=self._topic)

    def _consumer(self) -> Consumer | None:
        """Return a consumer that reads on, however long it takes to get one; None if nobody wants it any more."""
        while not self._given_up.is_set():
            try:
                consumer = self._make_consumer(self._pass_error_on)
                consumer.assign(
                    [
                        TopicPartition(self._topic, partition, position or OFFSET_BEGINNING)
                        for partition, position in self._positions.items()
                    ]
                )
            except (LogError, KafkaException) as error:
                log.warning("a topic cannot be read now", topic=self._topic, reason=reason_of(error))
                self._given_up.wait(RETRY_S)
            else:
                return consumer
        return None

    def _read(self, consumer: Consumer) -> None:
        while not self._given_up.is_set():
            message = consumer.poll(POLL_S)
            batch = []
            while message is not None:
                batch.append(_read_of(message))
                message = consumer.poll(0) if len(batch) < BATCH_SIZE_MAX else None
            if batch:
                self._hand_over(batch)

    def _hand_over(self, batch: Sequence[Read]) -> None:
        self._dealt_with.clear()
        self._call(self._take, batch)
        while not self._dealt_with.wait(POLL_S) and not self._given_up.is_set():
            pass

    def _pass_error_on(self, error: KafkaError) -> None:
        self._call(self._take_error, error)

    def _call(self, function: Callable[..., None], argument: object) -> None:
        if not self._given_up.is_set():  # the event loop may have ended since
            self._loop.call_soon_threadsafe(function, argument)

    # Back in the event loop.

    def _take(self, batch: Sequence[Read]) -> None:
        if not self._given_up.is_set():
            self._on_batch(batch)
        self._dealt_with.set()

    def _take_error(self, error: KafkaError) -> None:
        if not self._given_up.is_set():
            self._on_error(error)


def _read_of(message: Message) -> Read:
    partition, offset = message.partition() or 0, message.offset() or 0
    error = message.error()
    if error is None:
        _, timestamp_ms = message.timestamp()  # -1 where there is none
        entry = Entry(_bytes(message.key()), _bytes(message.value()), offset, timestamp_ms)
        return Read(partition, offset + 1, entry, None)
    if error.code() == PARTITION_EOF:
        return Read(partition, offset, None, None)
    return Read(partition, 0, None, error)


def _bytes(value: object) -> bytes | None:
    assert value is None or isinstance(value, bytes), "nothing decodes what the consumer reads"
    return value
