"""Writes records to the internal topics and says when all in-sync replicas have them.

One librdkafka producer serves all of them. A thread waits for its reports and passes them to the event loop.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla_connect.state.config_records import Write
from ottla_connect.state.kafka_clients import reason_of
from ottla_connect.state.keyed_log import LogError, NotInTime
from ottla_core.background import note_failure, start_thread

POLL_S = 0.2
CLOSE_TIMEOUT_S = 5.0

Report = asyncio.Future[KafkaError | None]

log = structlog.get_logger("internal topics")


class TopicProducer:
    """An acknowledging producer for the event loop that starts it.

    Args:
        make: makes the librdkafka producer, and another when one has failed for good; raises `LogError`.
    """

    def __init__(self, make: Callable[[], Producer]) -> None:
        self._make = make
        self._producer: Producer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._has_failed = False

    def start(self) -> None:
        """Begin; does nothing if it has begun.

        Raises:
            LogError: the settings are wrong.
        """
        if self._thread is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._producer = self._make()
        self._thread = start_thread("internal topics producer", self._poll)

    async def write(self, topic: str, writes: Sequence[Write], timeout_s: float) -> None:
        """Write records, those of one key in their order, and return when all are acknowledged.

        Raises:
            LogError: some were not, or not in time; those may still be stored.
        """
        if not writes:
            return
        producer = self._usable_producer()
        try:
            reports = [self._produce(producer, topic, write) for write in writes]
        except (KafkaException, BufferError) as error:
            raise LogError(f"topic {topic} cannot be written: {reason_of(error)}") from None
        done, pending = await asyncio.wait(reports, timeout=timeout_s)
        if pending:
            raise LogError(f"topic {topic} did not take {len(pending)} records within {timeout_s:g} s")
        for report in done:
            if (failure := report.result()) is not None:
                kind = NotInTime if failure.code() == KafkaError._MSG_TIMED_OUT else LogError  # noqa: SLF001
                raise kind(f"topic {topic} cannot be written: {failure.str()}")

    async def close(self) -> None:
        """Wait shortly for what is under way, then end."""
        producer, self._producer = self._producer, None
        thread, self._thread = self._thread, None
        if producer is None or thread is None:
            return
        await asyncio.to_thread(producer.flush, CLOSE_TIMEOUT_S)
        self._closing.set()
        await asyncio.to_thread(thread.join)

    def _usable_producer(self) -> Producer:
        if self._producer is None:
            raise LogError("the producer is closed")
        if self._has_failed:
            # An idempotent producer that has lost its place in a partition refuses everything from then on.
            log.warning("the producer of internal topics failed and is replaced")
            replaced, self._producer = self._producer, self._make()
            self._has_failed = False
            replaced.purge()
            replaced.poll(0)
        return self._producer

    def _produce(self, producer: Producer, topic: str, write: Write) -> Report:
        loop = self._loop
        assert loop is not None
        report: Report = loop.create_future()

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None and error.fatal():
                self._has_failed = True
            loop.call_soon_threadsafe(_settle, report, error)

        producer.produce(topic, key=write.key, value=write.value, on_delivery=on_delivery)
        return report

    def _poll(self) -> None:
        while not self._closing.is_set():
            producer = self._producer
            if producer is None:
                self._closing.wait(POLL_S)
            else:
                try:
                    producer.poll(POLL_S)
                except Exception as error:  # noqa: BLE001 - it is noted
                    # Without this thread no write would ever be known to be done.
                    note_failure("internal topics producer", error)
                    self._closing.wait(POLL_S)


def _settle(report: Report, error: KafkaError | None) -> None:
    if not report.done():
        report.set_result(error)
