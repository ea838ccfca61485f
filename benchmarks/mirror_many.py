"""Many partitions with little traffic: what a mirror uses while idle and at a steady rate, and how late records are.

A record's lag is the time from its timestamp, which the producer sets, until a consumer at the target has it. That
consumer's own share is a few milliseconds, the same for all mirrors.
"""

import time
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.client import CLIENT_SETTINGS, BenchmarkFailed, create_topic, wait_until_served
from benchmarks.mirror_processes import Mirror, MirroredTopic, log_ends
from benchmarks.process_stats import cpu_time, peak_mib, resident_mib
from benchmarks.summary import percentiles
from benchmarks.throughput import random_values
from tests.support.clients.raw_client import RawClient

RECORD_BYTES: Final = 100
STEP: Final = 7
"""Every so manieth partition gets the next record."""
POLL_S: Final = 0.005
DEADLINE_S: Final = 240.0


class _Traffic:
    """A producer at the source and a consumer at the target."""

    def __init__(self, topic: MirroredTopic, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._producer = Producer({"bootstrap.servers": topic.source, **CLIENT_SETTINGS, "linger.ms": 5})
        self._value = random_values(RECORD_BYTES)[0]
        self._consumer: Consumer | None = None
        self.sent = 0

    def publish(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(self._topic.topic, self._value, partition=self.sent * STEP % self._partitions)
            self.sent += 1
        self._producer.poll(0)

    def flush(self) -> None:
        if self._producer.flush(DEADLINE_S):
            raise BenchmarkFailed("the source does not take what is published")

    def read_from(self, offsets: list[int]) -> None:
        """Read the copy from these offsets on."""
        settings = {
            "bootstrap.servers": self._topic.target,
            **CLIENT_SETTINGS,
            "group.id": "benchmark",
            "enable.auto.commit": False,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(self._topic.copy, n, end) for n, end in enumerate(offsets)])

    def arrived(self) -> list[float]:
        """Return the lags, in milliseconds, of records that have arrived by now."""
        assert self._consumer is not None
        found = self._consumer.consume(1000, POLL_S)
        now_ms = time.time() * 1000
        return [now_ms - each.timestamp()[1] for each in found if each.error() is None]

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def watch(
    directory: Path, source: str, target: str, name: str, *, partitions: int, rate: float, watched_s: float
) -> dict[str, float]:
    """Return the figures of one mirror.

    Raises:
        BenchmarkFailed: it does not copy.
    """
    topic = create_topic(source, partitions)
    wait_until_served(source, topic, partitions)
    mirrored = MirroredTopic(name, f"{name}-many", source, target, topic, "none")
    traffic = _Traffic(mirrored, partitions)
    try:
        with mirrored.mirror(directory) as mirror:
            traffic.publish(partitions)
            traffic.flush()
            traffic.read_from(_wait_for_all(mirror, mirrored, partitions))
            _at_rate(traffic, rate, watched_s / 4)  # so that everybody is warm
            idle_share = _idle(mirror, traffic, watched_s / 2)
            used_s, began_s, before = cpu_time(mirror.process.pid).total_s, time.perf_counter(), traffic.sent
            lags = _at_rate(traffic, rate, watched_s)
            elapsed_s = time.perf_counter() - began_s
            if len(lags) != traffic.sent - before:
                raise BenchmarkFailed(f"{len(lags)} of {traffic.sent - before} records have arrived")
            return {
                "idle_cpu_percent": idle_share * 100,
                "cpu_percent": (cpu_time(mirror.process.pid).total_s - used_s) / elapsed_s * 100,
                **percentiles(lags, "lag_{}_ms"),
                "memory_mib": resident_mib(mirror.process.pid),
                "peak_memory_mib": peak_mib(mirror.process.pid),
            }
    finally:
        traffic.close()


def _wait_for_all(mirror: Mirror, mirrored: MirroredTopic, partitions: int) -> list[int]:
    """Wait until each partition has its first record, and return the ends of all."""
    give_up_s = time.perf_counter() + DEADLINE_S
    with RawClient.to(mirrored.target) as client:
        while sum(ends := log_ends(client, mirrored.copy, partitions)) < partitions:
            mirror.process.check_running()
            if time.perf_counter() > give_up_s:
                raise BenchmarkFailed(f"{partitions} partitions are not copied; see {mirror.process.log}")
            time.sleep(POLL_S * 10)
    return ends


def _idle(mirror: Mirror, traffic: _Traffic, idle_s: float) -> float:
    """Return the share of a core that the mirror uses while nothing is published."""
    used_s, began_s = cpu_time(mirror.process.pid).total_s, time.perf_counter()
    while (elapsed_s := time.perf_counter() - began_s) < idle_s:
        traffic.arrived()
    return (cpu_time(mirror.process.pid).total_s - used_s) / elapsed_s


def _at_rate(traffic: _Traffic, rate: float, seconds: float) -> list[float]:
    """Publish at a steady rate and return the lags of all, once all have arrived or a deadline is over."""
    lags: list[float] = []
    first, began_s = traffic.sent, time.perf_counter()
    while (elapsed_s := time.perf_counter() - began_s) < seconds:
        traffic.publish(first + int(elapsed_s * rate) - traffic.sent)
        lags += traffic.arrived()
    while len(lags) < traffic.sent - first and time.perf_counter() - began_s < seconds + DEADLINE_S:
        traffic.publish(0)
        lags += traffic.arrived()
    return lags
