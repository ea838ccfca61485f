"""The three loads: publish fast, read fast, and one record at a time.

Each drives librdkafka through confluent-kafka, knows nothing of the command line, and calls `advance` now and
then with the number of records done, so that a caller can show progress.
"""

import random
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.load.measurement import due_at
from ottla_operations.errors import OperationError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

Advance = Callable[[int], None]

PAYLOADS = 64
PAYLOAD_ALPHABET = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
ADVANCE_EVERY = 5_000
FETCH_RECORDS_MAX = 10_000
SILENCE_S = 30.0
LATENCY_WARM_UP = 50


@dataclass(slots=True)
class LoadResult:
    """What a load did.

    Attributes:
        records: acknowledged or read records.
        errors: how often each error came back.
        latencies_ms: for a publishing load, from handing a record over until its acknowledgement.
        end_to_end_ms: from handing a record over until it was read.
    """

    records: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    latencies_ms: "array[float]" = field(default_factory=lambda: array("d"))
    end_to_end_ms: "array[float]" = field(default_factory=lambda: array("d"))

    @property
    def failed(self) -> int:
        """How many records failed."""
        return sum(self.errors.values())


def make_payloads(size_bytes: int, seed: int = 1) -> list[bytes]:
    """Return different random texts of one size; a codec can save about a quarter of them."""
    source = random.Random(seed)  # noqa: S311 - filler, not a secret
    return [bytes(source.choices(PAYLOAD_ALPHABET, k=size_bytes)) for _ in range(PAYLOADS)]


def publish_load(
    producer: "Producer", topic: str, *, records: int, size_bytes: int, rate: float | None, advance: Advance
) -> LoadResult:
    """Publish records as fast as the client takes them, or at a steady rate."""
    result = LoadResult()

    def on_delivery(error: "KafkaError | None", message: "Message") -> None:
        if error is None:
            result.records += 1
            result.latencies_ms.append((message.latency() or 0.0) * 1000)
        else:
            result.errors[str(error.str())] = result.errors.get(str(error.str()), 0) + 1

    payloads = make_payloads(size_bytes)
    began = time.monotonic()
    for number in range(records):
        if rate is not None:
            _wait_until(producer, due_at(began, number, rate))
        while True:
            try:
                producer.produce(topic, payloads[number % PAYLOADS], on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 500 == 0:
            producer.poll(0)
        if number % ADVANCE_EVERY == 0:
            advance(result.records + result.failed)
    while producer.flush(0.1):
        advance(result.records + result.failed)
    result.seconds = time.monotonic() - began
    result.size_bytes = result.records * size_bytes
    return result


def read_load(consumer: "Consumer", *, records: int, advance: Advance) -> LoadResult:
    """Read so many records from the assigned partitions; sizes are those of keys and values.

    Raises:
        OperationError: an error came back, or nothing for a long time.
    """
    result = LoadResult()
    began = last = time.monotonic()
    while result.records < records:
        messages = consumer.consume(min(FETCH_RECORDS_MAX, records - result.records), 0.1)
        now = time.monotonic()
        if not messages and now - last > SILENCE_S:
            raise OperationError(
                f"nothing arrived for {SILENCE_S:.0f} s, after {result.records:,} of {records:,} records"
            )
        for message in messages:
            if (error := message.error()) is not None:
                if error.retriable():
                    continue
                raise OperationError(f"cannot read: {error.str()}")
            result.records += 1
            result.size_bytes += len(message)
        if messages:
            last = now
            advance(result.records)
    result.seconds = time.monotonic() - began
    return result


def latency_load(
    producer: "Producer", consumer: "Consumer", topic: str, *, records: int, size_bytes: int, advance: Advance
) -> LoadResult:
    """Publish one record at a time to partition 0 and wait until it is acknowledged and read again.

    Raises:
        OperationError: a record was not acknowledged or did not come back.
    """
    result = LoadResult()
    payloads = make_payloads(size_bytes)
    began = time.monotonic()
    for number in range(-LATENCY_WARM_UP, records):
        if number == 0:
            began = time.monotonic()
        sent = time.monotonic()
        _publish_one(producer, topic, payloads[number % PAYLOADS])
        acknowledged = time.monotonic()
        _read_one(consumer)
        read = time.monotonic()
        if number >= 0:
            result.latencies_ms.append((acknowledged - sent) * 1000)
            result.end_to_end_ms.append((read - sent) * 1000)
            result.records += 1
            advance(result.records)
    result.seconds = time.monotonic() - began
    result.size_bytes = result.records * size_bytes
    return result


def _publish_one(producer: "Producer", topic: str, payload: bytes) -> None:
    outcome: list[Any] = []
    producer.produce(topic, payload, partition=0, on_delivery=lambda error, _message: outcome.append(error))
    while not outcome:
        producer.poll(0.1)
    if outcome[0] is not None:
        raise OperationError(f"cannot publish: {outcome[0].str()}")


def _read_one(consumer: "Consumer") -> None:
    deadline = time.monotonic() + SILENCE_S
    while (message := consumer.poll(0.1)) is None or message.error() is not None:
        if message is not None and (error := message.error()) is not None and not error.retriable():
            raise OperationError(f"cannot read: {error.str()}")
        if time.monotonic() > deadline:
            raise OperationError(f"a published record did not come back within {SILENCE_S:.0f} s")


def _wait_until(producer: "Producer", moment_s: float) -> None:
    while (remaining := moment_s - time.monotonic()) > 0:
        producer.poll(min(remaining, 0.1))
