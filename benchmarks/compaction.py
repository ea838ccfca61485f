"""What compaction of a large topic costs, and what producers and readers notice of it.

A compacted topic is filled with records of which one in a hundred is the last one of its key, with compaction held
back by a dirty ratio that it cannot exceed. The latency of another topic is measured; then compaction is let go, and
the latency is measured again, over and over until the topic is small. Meanwhile the memory of the broker's process
and of its child processes is sampled. At the end every key has to have its last value.
"""

import random
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks import latency
from benchmarks.client import ADMIN_TIMEOUT_S, CLIENT_SETTINGS, BenchmarkFailed, CpuMeter, Subject, temporary_topic
from benchmarks.process_stats import cpu_time, resident_mib
from benchmarks.throughput import CONSUMER_SETTINGS, SILENCE_S, random_values
from tests.support.clients.raw_client import RawClient
from tests.support.messages.sparse_request import sparse_request

RECORDS_PER_KEY = 100
SEGMENTS = 64
SEGMENT_BYTES_MIN = 1024 * 1024
SHRUNK_SHARE = 0.03
SAMPLE_INTERVAL_S = 0.05
SHRINK_TIMEOUT_S = 900.0
RATE_PER_S = 500.0
RECORDS_PER_LATENCY_RUN = 2_000
BASELINE_RUNS = 2
_SEQUENCE = struct.Struct(">q")
_LATENCIES = ("acknowledged_p50_ms", "acknowledged_p99_ms", "end_to_end_p50_ms", "end_to_end_p99_ms")

TOPIC_CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}


@dataclass(frozen=True, slots=True)
class CompactionLoad:
    """How much is compacted.

    Attributes:
        record_bytes: size of each value.
        total_bytes: of all values.
    """

    record_bytes: int = 1000
    total_bytes: int = 1_000_000_000

    @property
    def records(self) -> int:
        """How many records that is."""
        return self.total_bytes // self.record_bytes

    @property
    def keys(self) -> int:
        """How many keys they have."""
        return max(1, self.records // RECORDS_PER_KEY)


class ProcessWatch(threading.Thread):
    """Samples the memory of a broker and of its children, and the children's CPU time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._stopping = threading.Event()
        self.broker_peak_mib = 0.0
        self.children_peak_mib = 0.0
        self.children_cpu_s: dict[int, float] = {}

    def run(self) -> None:
        while not self._stopping.wait(SAMPLE_INTERVAL_S):
            self.broker_peak_mib = max(self.broker_peak_mib, resident_mib(self._pid))
            together_mib = 0.0
            for child in children_of(self._pid):
                try:
                    together_mib += resident_mib(child)
                    self.children_cpu_s[child] = cpu_time(child).total_s
                except (OSError, LookupError):
                    continue  # it has just ended
            self.children_peak_mib = max(self.children_peak_mib, together_mib)

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def children_of(pid: int) -> list[int]:
    """Return the child processes of all threads of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except OSError:
            continue  # the thread has just ended
    return found


def measure(subject: Subject, load: CompactionLoad) -> dict[str, float]:
    """Fill a topic, let it be compacted, and return the figures.

    Raises:
        BenchmarkFailed: the topic does not shrink, or a key has another value than its last one.
    """
    segment_bytes = max(SEGMENT_BYTES_MIN, load.total_bytes // SEGMENTS)
    with temporary_topic(subject.bootstrap, configs={**TOPIC_CONFIG, "segment.bytes": str(segment_bytes)}) as topic:
        last = _fill(subject, topic, load)
        size_before = log_bytes(subject.bootstrap, topic)
        resident_before_mib = resident_mib(subject.pid)
        quiet = [_latencies(subject) for _ in range(BASELINE_RUNS)]
        watch = ProcessWatch(subject.pid)
        watch.start()
        meter = CpuMeter(subject)
        _set_config(subject.bootstrap, topic, "min.cleanable.dirty.ratio", "0.01")
        busy, elapsed_s = _measure_until_shrunk(subject, topic, size_before)
        broker_cpu, _ = meter.stop()
        watch.stop()
        size_after = log_bytes(subject.bootstrap, topic)
        _check_values(subject, topic, last)
    return {
        "size_before_mb": size_before / 1e6,
        "size_after_mb": size_after / 1e6,
        "size_after_percent": 100 * size_after / size_before,
        "compaction_s": elapsed_s,
        "broker_cpu_meanwhile_s": broker_cpu.total_s,
        "children_cpu_s": sum(watch.children_cpu_s.values()),
        "broker_resident_before_mib": resident_before_mib,
        "broker_resident_growth_mib": watch.broker_peak_mib - resident_before_mib,
        "children_resident_peak_mib": watch.children_peak_mib,
        **{f"quiet_{name}": _median([run[name] for run in quiet]) for name in _LATENCIES},
        **{f"compacting_{name}": _median([run[name] for run in busy]) for name in _LATENCIES},
        "compacting_acknowledged_p99_worst_ms": max(run["acknowledged_p99_ms"] for run in busy),
        "latency_runs": len(busy),
    }


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _fill(subject: Subject, topic: str, load: CompactionLoad) -> dict[bytes, int]:
    """Publish the load and return the number of each key's last record."""
    failures: list[str] = []

    def on_delivery(error: ClientError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error.str())

    producer = Producer(
        {"bootstrap.servers": subject.bootstrap, **CLIENT_SETTINGS, "linger.ms": "5"}, on_delivery=on_delivery
    )
    padding = [value[_SEQUENCE.size :] for value in random_values(load.record_bytes)]
    source = random.Random(load.records)
    last: dict[bytes, int] = {}
    for number in range(load.records):
        key = b"key-%08d" % source.randrange(load.keys)
        value = _SEQUENCE.pack(number) + padding[number % len(padding)]
        while True:
            try:
                producer.produce(topic, value, key, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        last[key] = number
        if not number % 2_000:
            producer.poll(0)
    if producer.flush(SILENCE_S) or failures:
        raise BenchmarkFailed(f"the topic cannot be filled: {failures[:1]}")
    return last


def _latencies(subject: Subject) -> Mapping[str, float]:
    with temporary_topic(subject.bootstrap) as topic:
        return latency.measure(subject, topic, records=RECORDS_PER_LATENCY_RUN, rate_per_s=RATE_PER_S)


def _measure_until_shrunk(subject: Subject, topic: str, size_before: int) -> tuple[list[Mapping[str, float]], float]:
    """Measure latencies until the topic is small; return them, and how long that took."""
    while not children_of(subject.pid):
        time.sleep(SAMPLE_INTERVAL_S)  # the broker looks after its logs every few seconds
    began_s = time.monotonic()
    shrunk_s: list[float] = []

    def wait_until_shrunk() -> None:
        while time.monotonic() - began_s < SHRINK_TIMEOUT_S:
            if log_bytes(subject.bootstrap, topic) < SHRUNK_SHARE * size_before:
                shrunk_s.append(time.monotonic())
                return
            time.sleep(SAMPLE_INTERVAL_S)

    waiting = threading.Thread(target=wait_until_shrunk, daemon=True)
    waiting.start()
    runs: list[Mapping[str, float]] = []
    while waiting.is_alive():
        runs.append(_latencies(subject))
    waiting.join()
    if not shrunk_s:
        raise BenchmarkFailed(f"the topic has not shrunk within {SHRINK_TIMEOUT_S} s")
    # The last run outlasted the compaction.
    return runs[:-1] or runs, shrunk_s[0] - began_s


def _check_values(subject: Subject, topic: str, last: Mapping[bytes, int]) -> None:
    """Read the topic as it is now, and compare each key's value with its last one."""
    consumer = Consumer({"bootstrap.servers": subject.bootstrap, **CONSUMER_SETTINGS})
    found: dict[bytes, int] = {}
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SILENCE_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        position, give_up_s = 0, time.monotonic() + SILENCE_S
        while position < end and time.monotonic() < give_up_s:
            for message in consumer.consume(10_000, 0.2):
                key, value, offset = message.key(), message.value(), message.offset()
                assert isinstance(key, bytes)
                assert isinstance(value, bytes)
                assert offset is not None
                found[key] = _SEQUENCE.unpack_from(value)[0]
                position = offset + 1
    finally:
        consumer.close()
    if found != last:
        wrong = sum(found.get(key) != number for key, number in last.items())
        raise BenchmarkFailed(f"{wrong} of {len(last)} keys do not have their last value")


def log_bytes(bootstrap: str, topic: str) -> int:
    """Return the size of a topic's logs."""
    with RawClient.to(bootstrap) as client:
        described: Any = client.ask(sparse_request("describe_log_dirs", 4, topics=None))
    return sum(
        partition.partition_size
        for directory in described.results
        for found in directory.topics
        if found.name == topic
        for partition in found.partitions
    )


def _set_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap, **CLIENT_SETTINGS})
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(ADMIN_TIMEOUT_S)
