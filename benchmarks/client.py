"""What all programs need of the client's side: topics that exist for one measurement, and requests byte by byte."""

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from kio.schema.metadata.v1.request import MetadataRequest

from benchmarks.process_stats import CpuTime, cpu_time, listener_pid
from tests.support.clients.raw_client import RawClient, Silence

ADMIN_TIMEOUT_S = 60.0
METADATA_POLL_S = 0.005
LEADERS_TIMEOUT_S = 60.0
SERVED_TIMEOUT_S = 180.0
CLIENT_SETTINGS = {"log_level": "5"}
"""librdkafka's notices and worse; its routine messages would drown the report."""
TOPIC_CONFIG = {"file.delete.delay.ms": "0"}
"""Deleted means gone: neither the disk nor the next measurement has to bear what the last one left."""


class BenchmarkFailed(Exception):
    """The broker did not do what is to be measured, so there is nothing to report."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A broker that is measured.

    Attributes:
        bootstrap: its address, ``host:port``.
        pid: its process, which must run on this machine.
    """

    bootstrap: str
    pid: int

    @classmethod
    def at(cls, bootstrap: str, pid: int | None = None) -> "Subject":
        """Return the broker at an address; its process is looked up unless it is named."""
        return cls(bootstrap, pid or listener_pid(int(bootstrap.rpartition(":")[2])))


class CpuMeter:
    """The CPU time that a subject uses between two moments, and the time that passes."""

    def __init__(self, subject: Subject) -> None:
        self._pid = subject.pid
        self._before = cpu_time(subject.pid)
        self._began_s = time.perf_counter()

    def stop(self) -> tuple[CpuTime, float]:
        """Return CPU time and wall time since the meter was made."""
        elapsed_s = time.perf_counter() - self._began_s
        return cpu_time(self._pid) - self._before, elapsed_s


def create_topic(bootstrap: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
    """Create a topic with a new name, wait until every partition has a leader, and return the name."""
    name = f"benchmark-{uuid.uuid4().hex[:12]}"
    topic = NewTopic(
        name, num_partitions=partitions, replication_factor=1, config={**TOPIC_CONFIG, **(configs or {})}
    )
    admin = AdminClient({"bootstrap.servers": bootstrap, **CLIENT_SETTINGS})
    admin.create_topics([topic], operation_timeout=ADMIN_TIMEOUT_S)[name].result(ADMIN_TIMEOUT_S)
    wait_for_leaders(bootstrap, partitions, name)
    return name


def wait_until_served(bootstrap: str, topic: str, partitions: int, *, timeout_s: float = LEADERS_TIMEOUT_S) -> None:
    """Ask for the end of every partition until the leaders of all answer.

    Kafka shows a partition's leader before that one has its log.

    Raises:
        BenchmarkFailed: it takes too long.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, **CLIENT_SETTINGS})
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}  # type: ignore[no-untyped-call]
    give_up_s = time.monotonic() + timeout_s
    while time.monotonic() < give_up_s:
        answers = admin.list_offsets(wanted, request_timeout=ADMIN_TIMEOUT_S).values()
        if all(answer.exception(ADMIN_TIMEOUT_S) is None for answer in answers):
            return
        time.sleep(METADATA_POLL_S)
    raise BenchmarkFailed(f"{bootstrap} does not serve {partitions} partitions of {topic} after {timeout_s} s")


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic, so that the next measurement starts with an empty disk."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **CLIENT_SETTINGS})
    admin.delete_topics([name], operation_timeout=ADMIN_TIMEOUT_S)[name].result(ADMIN_TIMEOUT_S)


@contextlib.contextmanager
def temporary_topic(bootstrap: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Iterator[str]:
    """Provide a topic that is deleted at the end."""
    name = create_topic(bootstrap, partitions, configs)
    try:
        yield name
    finally:
        delete_topic(bootstrap, name)


def wait_for_leaders(
    bootstrap: str, partitions: int, topic: str | None = None, *, timeout_s: float = LEADERS_TIMEOUT_S
) -> float:
    """Ask for metadata until so many partitions have a leader; return when that was, by CLOCK_BOOTTIME.

    Raises:
        BenchmarkFailed: it takes too long.
    """
    give_up_s = time.monotonic() + timeout_s
    led = -1
    while time.monotonic() < give_up_s:
        led = _count_led(bootstrap, topic)
        if led >= partitions:
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        time.sleep(METADATA_POLL_S)
    raise BenchmarkFailed(f"{bootstrap} shows {led} of {partitions} partitions with a leader after {timeout_s} s")


def _count_led(bootstrap: str, topic: str | None) -> int:
    """Return how many partitions have a leader, or -1 while nobody answers."""
    try:
        with RawClient.to(bootstrap) as client:
            # A broker that knows itself is ready to be asked for topics; none at all is an answer too.
            response: Any = client.ask(MetadataRequest(topics=None))
    except (OSError, Silence):
        return -1
    if not response.brokers:
        return -1
    return sum(
        partition.leader_id >= 0
        for found in response.topics
        if topic in {None, found.name}
        for partition in found.partitions
    )
