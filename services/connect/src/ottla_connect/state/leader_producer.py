"""Writes what only the leading worker may write to the config topic, in transactions (KIP-618).

All workers share one transactional id, so a worker that claims it fences whoever wrote under it before, also one
that is paused in the middle of a write: the broker refuses that when it goes on. A worker that leads claims before it
reads what there is, and again after it was fenced itself.

librdkafka's calls block, so they are made one after the other in a thread.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from ottla_connect.state.config_records import Write
from ottla_connect.state.kafka_clients import TIMED_OUT, reason_of
from ottla_connect.state.keyed_log import LogError, NotInTime

ONLY_PARTITION = 0
CALL_MIN_S = 0.1
BACKOFF_S = 0.1

log = structlog.get_logger("leader's writes")


class LeaderProducer:
    """A `LeaderWrites` for a topic with one partition.

    Args:
        make: makes the librdkafka producer, with its transactional id; raises `LogError`.
        topic: the config topic.
    """

    def __init__(self, make: Callable[[], Producer], topic: str) -> None:
        self._make = make
        self._topic = topic
        self._producer: Producer | None = None  # of the thread
        self._thread = ThreadPoolExecutor(1, "leader's writes")

    async def claim(self, timeout_s: float) -> None:
        """Keep all others from writing; does nothing if this one has before.

        Raises:
            LogError: it is not possible, or not in time.
        """
        await self._run(lambda: self._claimed(time.monotonic() + timeout_s))

    def relinquish(self) -> None:
        """Claim anew before the next write."""
        self._thread.submit(self._forget)

    async def write(self, writes: Sequence[Write], timeout_s: float) -> None:
        """Write all of these or nothing, in their order.

        Raises:
            LogError: they are not stored, or it is not known whether they are.
        """
        if writes:
            await self._run(lambda: self._write(writes, time.monotonic() + timeout_s))

    async def close(self) -> None:
        """Write no more."""
        self._thread.submit(self._forget)
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self, call: Callable[[], object]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except KafkaException as error:
            kind = NotInTime if error.args[0].code() == TIMED_OUT else LogError
            raise kind(f"topic {self._topic} cannot be written by the leader: {reason_of(error)}") from None

    # In the thread.

    def _claimed(self, deadline_s: float) -> Producer:
        if self._producer is None:
            producer = self._make()
            _patiently(producer.init_transactions, deadline_s)
            log.info("this worker alone writes to the config topic now", topic=self._topic)
            self._producer = producer
        return self._producer

    def _write(self, writes: Sequence[Write], deadline_s: float) -> None:
        producer = self._claimed(deadline_s)
        try:
            producer.begin_transaction()
            for each in writes:
                producer.produce(self._topic, key=each.key, value=each.value, partition=ONLY_PARTITION)
            _patiently(producer.commit_transaction, deadline_s)
        except (KafkaException, BufferError) as error:
            # Whether it was committed is settled by the next claim, at the latest.
            self._forget()
            if isinstance(error, BufferError):
                raise LogError(f"topic {self._topic}: {len(writes)} records are too many at once") from None
            raise

    def _forget(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.poll(0)


def _patiently(call: Callable[[float], object], deadline_s: float) -> None:
    """Call what may be repeated as long as its error says so."""
    while True:
        try:
            call(max(deadline_s - time.monotonic(), CALL_MIN_S))
        except KafkaException as error:
            failure: KafkaError = error.args[0]
            if not failure.retriable() or time.monotonic() >= deadline_s:
                raise
            time.sleep(BACKOFF_S)
        else:
            return
