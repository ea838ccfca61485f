"""Publishing and reading as fast as one librdkafka client can, and what that costs the broker per gigabyte.

The client shares the machine with the broker and a Python call per record is not free, so the megabytes per second
are as much the client's figure as the broker's. The broker's CPU seconds per gigabyte are its own. A gigabyte is
10^9 bytes of record values; a topic with one partition lives for one measurement.
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError

from benchmarks.client import CLIENT_SETTINGS, BenchmarkFailed, CpuMeter, Subject
from benchmarks.process_stats import CpuTime

VALUES = 64
POLL_EVERY_RECORDS = 2_000
READ_AT_ONCE_RECORDS = 10_000
SILENCE_S = 30.0

ACKS = {
    "1": {"acks": "1"},
    "all": {"acks": "all"},
    "idempotent": {"enable.idempotence": "true"},
}
PRODUCER_SETTINGS = {**CLIENT_SETTINGS, "linger.ms": "5", "compression.type": "none"}
CONSUMER_SETTINGS = {
    **CLIENT_SETTINGS,
    "group.id": "benchmark",
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    # Else the client pauses for a second whenever its own queue is full.
    "fetch.queue.backoff.ms": "1",
}


@dataclass(frozen=True, slots=True)
class Load:
    """How much is moved.

    Attributes:
        record_bytes: size of each record's value.
        total_bytes: of all values.
        acks: a key of `ACKS`.
    """

    record_bytes: int
    total_bytes: int
    acks: str = "1"

    @property
    def records(self) -> int:
        """How many records that is."""
        return max(1, self.total_bytes // self.record_bytes)


def random_values(size_bytes: int) -> list[bytes]:
    """Return different incompressible values, the same in every run."""
    source = random.Random(size_bytes)
    return [source.randbytes(size_bytes) for _ in range(VALUES)]


def produce(subject: Subject, topic: str, load: Load, settings: Mapping[str, str] | None = None) -> dict[str, float]:
    """Publish the load to partition 0 and return the figures."""
    errors: list[str] = []

    def on_delivery(error: ClientError | None, _message: Message) -> None:
        if error is not None:
            errors.append(error.str())

    producer = Producer(
        {"bootstrap.servers": subject.bootstrap, **PRODUCER_SETTINGS, **ACKS[load.acks], **(settings or {})},
        on_delivery=on_delivery,
    )
    producer.list_topics(topic, timeout=SILENCE_S)  # connected before the clock starts
    values = random_values(load.record_bytes)
    meter = CpuMeter(subject)
    for number in range(load.records):
        _enqueue(producer, topic, values[number % VALUES])
        if not number % POLL_EVERY_RECORDS:
            producer.poll(0)
    left = producer.flush(SILENCE_S)
    cpu, elapsed_s = meter.stop()
    if errors or left:
        raise BenchmarkFailed(f"{len(errors)} records failed, {left} were not acknowledged: {errors[:1]}")
    return _figures(load.records, load.records * load.record_bytes, cpu, elapsed_s)


def consume(
    subject: Subject, topic: str, records: int, settings: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Read so many records of partition 0 from its beginning and return the figures."""
    consumer = Consumer({"bootstrap.servers": subject.bootstrap, **CONSUMER_SETTINGS, **(settings or {})})
    try:
        consumer.list_topics(topic, timeout=SILENCE_S)
        meter = CpuMeter(subject)
        consumer.assign([TopicPartition(topic, 0, 0)])
        read = size_bytes = 0
        last_s = time.monotonic()
        while read < records:
            messages = consumer.consume(READ_AT_ONCE_RECORDS, 0.2)
            for message in messages:
                if (error := message.error()) is not None:
                    raise BenchmarkFailed(f"cannot read: {error.str()}")
                size_bytes += len(message)
            read += len(messages)
            if messages:
                last_s = time.monotonic()
            elif time.monotonic() - last_s > SILENCE_S:
                raise BenchmarkFailed(f"nothing arrived for {SILENCE_S} s, after {read} of {records} records")
        cpu, elapsed_s = meter.stop()
    finally:
        consumer.close()
    if read != records:
        raise BenchmarkFailed(f"read {read} records where {records} were published")
    return _figures(read, size_bytes, cpu, elapsed_s)


def _enqueue(producer: Producer, topic: str, value: bytes) -> None:
    """Hand a record to the client, waiting while its queue is full."""
    while True:
        try:
            producer.produce(topic, value, partition=0)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _figures(records: int, size_bytes: int, cpu: CpuTime, elapsed_s: float) -> dict[str, float]:
    gigabytes = size_bytes / 1e9
    return {
        "cpu_s_per_gb": cpu.total_s / gigabytes,
        "user_s_per_gb": cpu.user_s / gigabytes,
        "system_s_per_gb": cpu.system_s / gigabytes,
        "mb_per_s": size_bytes / 1e6 / elapsed_s,
        "records_per_s": records / elapsed_s,
    }
