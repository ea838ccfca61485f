"""What copying a topic from one cluster to another costs: CPU of the mirroring process, rate, memory, lag.

Both clusters have a single broker, and are the same for all who mirror. A topic is filled at the source first, and
then a mirror is started that has all of it to copy. The first part of the records warms it up, which a JVM needs; the
others are measured. Producers make batches of `BATCH_BYTES`, which is what Java's make by default: a mirror that
passes batches on pays by the batch.

With many partitions and little traffic, lag is the time that a record is on its way: the records at the source that
the target has not got yet, divided by how many come in a second (Little's law).
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from confluent_kafka import Producer
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v1 import request as list_offsets
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i64

from benchmarks.client import CLIENT_SETTINGS, BenchmarkFailed, create_topic, wait_until_served
from benchmarks.process_stats import cpu_time, resident_mib
from benchmarks.summary import Measures
from benchmarks.throughput import random_values
from tests.support.child_process import ChildProcess
from tests.support.free_ports import LOOPBACK, free_port
from tests.support.mirror_maker import MirrorMaker
from tests.support.ottla_cluster import OttlaCluster
from tests.support.raw_client import RawClient
from tests.support.reference_kafka import ReferenceKafka

MIRROR_MAKER: Final = "mirror-maker"
OTTLA_MIRROR: Final = "ottla-mirror"
MIRRORS: Final = (OTTLA_MIRROR, MIRROR_MAKER)
CODECS: Final = ("none", "lz4")
BATCH_BYTES: Final = 16_384
WARM_SHARE: Final = 0.5
POLL_S: Final = 0.2
STALLED_AFTER_S: Final = 240.0
PRODUCER_BUFFER_KBYTES: Final = 256 * 1024
LATEST: Final = -1


@dataclass(frozen=True, kw_only=True)
class MirrorPlan:
    """What to measure.

    Attributes:
        mirrors: who mirrors, of `MIRRORS`.
        clusters: whether both clusters are ``kafka`` or ``ottla``.
        record_bytes: sizes of values.
        codecs: of `CODECS`.
        records: in each topic; by default what `RECORDS` says.
        partitions: of each topic.
        many_partitions: of the topic with little traffic; 0 leaves that out.
        rate: records a second in it.
        watched_s: how long it is watched, in seconds.
    """

    mirrors: Sequence[str] = MIRRORS
    clusters: str = "kafka"
    record_bytes: Sequence[int] = (1000, 100)
    codecs: Sequence[str] = CODECS
    records: int | None = None
    partitions: int = 4
    many_partitions: int = 2000
    rate: float = 200.0
    watched_s: float = 30.0


RECORDS: Final = {1000: 600_000, 100: 2_000_000}
"""By the size of a value, so many that MirrorMaker 2 has work for the better part of a minute."""


class Cluster(Protocol):
    """A cluster that is started here."""

    @property
    def bootstrap(self) -> str:
        """Where it answers."""


class Mirror(Protocol):
    """A mirroring process."""

    process: ChildProcess


class OttlaMirror:
    """One mirror worker of ours, with what MirrorMaker 2 is told."""

    def __init__(self, directory: Path, source: tuple[str, str], target: tuple[str, str], topics: str) -> None:
        flow = f"{source[0]}->{target[0]}"
        properties = {
            "clusters": f"{source[0]},{target[0]}",
            f"{source[0]}.bootstrap.servers": source[1],
            f"{target[0]}.bootstrap.servers": target[1],
            f"{flow}.enabled": "true",
            f"{flow}.topics": topics,
            "replication.factor": "1",
            "refresh.topics.interval.seconds": "2",
            "group.id": f"mirrors-of-{source[0]}",
            "listeners": f"http://{LOOPBACK}:{free_port()}",
        }
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "mirror.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = [str(Path(sys.executable).with_name(OTTLA_MIRROR)), "--config", str(config)]
        self.process = ChildProcess(OTTLA_MIRROR, command, log=directory / "mirror.log")

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()


def measure(directory: Path, plan: MirrorPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the figures of every case, by mirror."""
    found: dict[str, Measures] = {}
    with ExitStack() as stack:
        source = stack.enter_context(_cluster(plan.clusters, directory / "source"))
        target = stack.enter_context(_cluster(plan.clusters, directory / "target"))
        for size in plan.record_bytes:
            for codec in plan.codecs:
                count = plan.records or RECORDS.get(size, RECORDS[1000])
                say(f"publishing {count:,} records of {size} bytes ({codec})")
                topic = _fill(source.bootstrap, plan.partitions, size, codec, count)
                for name in plan.mirrors:
                    say(f"{name}: {size} bytes, {codec}")
                    flow = _Flow(name, f"{name}-{size}-{codec}", source.bootstrap, target.bootstrap, topic, codec)
                    with flow.mirror(directory) as mirror:
                        measures = _copied(mirror, target.bootstrap, flow.copy, plan, count)
                    found[f"{name} {size} B {codec}"] = measures
                    say(f"{name}: {measures['records_per_cpu_s']:,.0f} records per CPU second")
        found |= _ratios(found)
        if plan.many_partitions:
            for name in plan.mirrors:
                say(f"{name}: {plan.many_partitions} partitions, {plan.rate:g} records/s")
                found[f"{name} {plan.many_partitions} partitions"] = _watched(
                    directory, source.bootstrap, target.bootstrap, name, plan
                )
    return found


def _ratios(found: Mapping[str, Measures]) -> dict[str, Measures]:
    """Return how many times as much ours does, for each case that both have copied."""
    ratios: dict[str, Measures] = {}
    for name, measures in found.items():
        if name.startswith(OTTLA_MIRROR) and (peer := found.get(MIRROR_MAKER + name.removeprefix(OTTLA_MIRROR))):
            ratios["ratio" + name.removeprefix(OTTLA_MIRROR)] = {
                figure: measures[figure] / peer[figure]
                for figure in ("records_per_cpu_s", "records_per_s", "memory_mib")
            }
    return ratios


@contextmanager
def _cluster(kind: str, directory: Path) -> Iterator[Cluster]:
    if kind == "ottla":
        with OttlaCluster(directory) as cluster:
            yield cluster
        return
    kafka = ReferenceKafka(directory, java_options=("-Xmx1g", "-Xms1g"))
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.kill()  # a clean stop with thousands of partitions takes a minute


@dataclass(frozen=True, slots=True)
class _Flow:
    """A topic that is copied by somebody.

    Attributes:
        name: who copies.
        alias: of the source, another one in each measurement, as a mirror remembers the last one by it.
        codec: of the topic's batches.
    """

    name: str
    alias: str
    source: str
    target: str
    topic: str
    codec: str

    @property
    def copy(self) -> str:
        """The topic's name at the target."""
        return f"{self.alias}.{self.topic}"

    def mirror(self, directory: Path) -> AbstractContextManager[Mirror]:
        """Return who copies it, not started yet."""
        if self.name == OTTLA_MIRROR:
            return OttlaMirror(directory / self.alias, (self.alias, self.source), ("target", self.target), self.topic)
        # As the source's batches are: without this MirrorMaker 2 would save the time of compressing them again.
        settings = {"target.producer.compression.type": self.codec}
        source, target = (self.alias, self.source), ("target", self.target)
        return MirrorMaker(directory / self.alias, source, target, topics=self.topic, settings=settings)


# Copying


def _fill(bootstrap: str, partitions: int, size: int, codec: str, count: int) -> str:
    """Publish records and return their topic."""
    topic = create_topic(bootstrap, partitions)
    errors: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            **CLIENT_SETTINGS,
            "batch.size": BATCH_BYTES,
            "linger.ms": 50,
            "compression.type": codec,
            "queue.buffering.max.kbytes": PRODUCER_BUFFER_KBYTES,
            "queue.buffering.max.messages": 1_000_000,
        },
        on_delivery=lambda error, _: errors.append(str(error)) if error is not None else None,
    )
    values = _values(size)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, values[number % len(values)], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(STALLED_AFTER_S) or errors:
        raise BenchmarkFailed(f"cannot publish: {errors[:1]}")
    return topic


def _values(size: int) -> list[bytes]:
    """Return values of which a codec saves about a half."""
    return [value[: size // 2].hex().encode()[:size].ljust(size, b"-") for value in random_values(size)]


def _copied(mirror: Mirror, bootstrap: str, topic: str, plan: MirrorPlan, count: int) -> dict[str, float]:
    """Watch a mirror until it has copied everything; the figures are those of the records after the first share."""
    pid = mirror.process.pid
    began_s = time.perf_counter()
    warm: tuple[int, float, float] | None = None
    last, last_change_s = 0, began_s
    with RawClient.to(bootstrap) as client:
        while True:
            mirror.process.check_running()
            there = sum(_ends(client, topic, plan.partitions))
            now_s, used_s = time.perf_counter(), cpu_time(pid).total_s
            if there != last:
                last, last_change_s = there, now_s
            elif now_s - last_change_s > STALLED_AFTER_S:
                raise BenchmarkFailed(
                    f"{there:,} of {count:,} records were copied, and no more; see {mirror.process.log}"
                )
            if warm is None and there >= count * WARM_SHARE:
                warm = there, now_s, used_s
            if there >= count:
                break
            time.sleep(POLL_S)
    if there > count:
        raise BenchmarkFailed(f"{there:,} records at the target where {count:,} were published")
    if warm is None or warm[0] == there:
        raise BenchmarkFailed(f"{count:,} records are too few")
    records, elapsed_s, cpu_s = there - warm[0], now_s - warm[1], used_s - warm[2]
    return {
        "records_per_cpu_s": records / cpu_s,
        "cpu_us_per_record": cpu_s / records * 1e6,
        "records_per_s": records / elapsed_s,
        "whole_cpu_s": used_s,
        "memory_mib": resident_mib(pid),
    }


def _ends(client: RawClient, topic: str, partitions: int) -> list[int]:
    """Return the ends of all partitions; 0 of those that are not there yet."""
    asked = tuple(
        list_offsets.ListOffsetsPartition(partition_index=i32(number), timestamp=i64(LATEST))
        for number in range(partitions)
    )
    request = list_offsets.ListOffsetsRequest(
        replica_id=BrokerId(-1),
        topics=(list_offsets.ListOffsetsTopic(name=TopicName(topic), partitions=asked),),
    )
    (answer,) = client.ask(request).topics
    return [each.offset if each.error_code is ErrorCode.none else 0 for each in answer.partitions]


# Many partitions


def _watched(directory: Path, source: str, target: str, name: str, plan: MirrorPlan) -> dict[str, float]:
    """Publish at a steady rate over many partitions, and watch what the mirror uses and how far it is behind."""
    topic = create_topic(source, plan.many_partitions)
    wait_until_served(source, topic, plan.many_partitions)
    flow = _Flow(name, f"{name}-many", source, target, topic, "none")
    producer = Producer({"bootstrap.servers": source, **CLIENT_SETTINGS, "linger.ms": 5})
    value = random_values(100)[0]
    sent = 0

    def publish(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            producer.produce(topic, value, partition=sent * 7 % plan.many_partitions)
            sent += 1

    with (
        flow.mirror(directory) as mirror,
        RawClient.to(target) as client,
    ):
        publish(plan.many_partitions)
        producer.flush(STALLED_AFTER_S)
        give_up_s = time.perf_counter() + STALLED_AFTER_S
        while sum(_ends(client, flow.copy, plan.many_partitions)) < sent:
            mirror.process.check_running()
            if time.perf_counter() > give_up_s:
                raise BenchmarkFailed(
                    f"{name} does not copy {plan.many_partitions} partitions; see {mirror.process.log}"
                )
            time.sleep(POLL_S)
        idle_s = plan.watched_s / 2
        used_s = cpu_time(mirror.process.pid).total_s
        time.sleep(idle_s)
        idle_share = (cpu_time(mirror.process.pid).total_s - used_s) / idle_s
        used_s, began_s, behind = cpu_time(mirror.process.pid).total_s, time.perf_counter(), []
        first = sent
        while (elapsed_s := time.perf_counter() - began_s) < plan.watched_s:
            publish(first + int(elapsed_s * plan.rate) - sent)
            producer.poll(0)
            if elapsed_s > 1:  # the first are on their way still
                behind.append(sent - len(producer) - sum(_ends(client, flow.copy, plan.many_partitions)))
            time.sleep(POLL_S)
        elapsed_s = time.perf_counter() - began_s
        cpu_share = (cpu_time(mirror.process.pid).total_s - used_s) / elapsed_s
        memory = resident_mib(mirror.process.pid)
        producer.flush(STALLED_AFTER_S)
    rate = (sent - first) / elapsed_s
    return {
        "idle_cpu_percent": idle_share * 100,
        "cpu_percent": cpu_share * 100,
        "lag_ms": sum(behind) / len(behind) / rate * 1000,
        "lag_records_max": max(behind),
        "memory_mib": memory,
    }
