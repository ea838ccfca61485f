"""How long a record takes from `produce()` to its acknowledgement, and to a consumer that waits for it.

Records go out at a modest, even rate through librdkafka without lingering, one partition, acks=1 unless said
otherwise. A second thread reads; a record carries the time at which it was handed over. Client and broker share the
machine and the client's two threads one interpreter, so differences between brokers mean more than the figures
themselves.
"""

import struct
import threading
import time

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError

from benchmarks.client import CLIENT_SETTINGS, BenchmarkFailed, CpuMeter, Subject
from benchmarks.summary import percentiles
from benchmarks.throughput import CONSUMER_SETTINGS, SILENCE_S

RECORD_BYTES = 1_000
WARM_UP_RECORDS = 200
POLL_SHORTEST_S = 0.001
"""The client polls for whole milliseconds."""
_SENT_AT = struct.Struct(">q")


class _Reader(threading.Thread):
    """Reads the topic from its beginning and notes each record's age."""

    def __init__(self, bootstrap: str, topic: str, records: int) -> None:
        super().__init__(daemon=True)
        self.ages_ms: list[float] = []
        self.ready = threading.Event()
        self._records = records
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **CONSUMER_SETTINGS})
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def run(self) -> None:
        last_s = time.monotonic()
        while len(self.ages_ms) < self._records and time.monotonic() - last_s < SILENCE_S:
            self.ready.set()
            message = self._consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            last_s = time.monotonic()
            value = message.value()
            assert isinstance(value, bytes)
            self.ages_ms.append((time.monotonic_ns() - _SENT_AT.unpack_from(value)[0]) / 1e6)
        self._consumer.close()


def measure(subject: Subject, topic: str, *, records: int, rate_per_s: float, acks: str = "1") -> dict[str, float]:
    """Publish at the rate, read everything, and return the percentiles."""
    total = records + WARM_UP_RECORDS
    acknowledged_ms: list[float] = []

    def on_delivery(error: ClientError | None, message: Message) -> None:
        if error is None:
            acknowledged_ms.append((message.latency() or 0.0) * 1000)

    reader = _Reader(subject.bootstrap, topic, total)
    reader.start()
    reader.ready.wait()
    settings = {**CLIENT_SETTINGS, "bootstrap.servers": subject.bootstrap, "linger.ms": "0", "acks": acks}
    producer = Producer(settings, on_delivery=on_delivery)
    producer.list_topics(topic, timeout=SILENCE_S)
    meter = CpuMeter(subject)
    began_s = time.monotonic()
    padding = bytes(RECORD_BYTES - _SENT_AT.size)
    for number in range(total):
        while (early_s := began_s + number / rate_per_s - time.monotonic()) > 0:
            # An acknowledgement counts when it is polled, so that polling must be what fills the time.
            if early_s < POLL_SHORTEST_S:
                time.sleep(early_s)
            else:
                producer.poll(early_s)
        producer.produce(topic, _SENT_AT.pack(time.monotonic_ns()) + padding, partition=0)
        producer.poll(0)
    producer.flush(SILENCE_S)
    reader.join(2 * SILENCE_S)
    cpu, _ = meter.stop()
    if len(acknowledged_ms) != total or len(reader.ages_ms) != total:
        raise BenchmarkFailed(
            f"of {total} records {len(acknowledged_ms)} were acknowledged and {len(reader.ages_ms)} read"
        )
    return {
        **percentiles(reader.ages_ms[WARM_UP_RECORDS:], "end_to_end_{}_ms"),
        **percentiles(acknowledged_ms[WARM_UP_RECORDS:], "acknowledged_{}_ms"),
        "cpu_us_per_record": cpu.total_s / total * 1e6,
    }
