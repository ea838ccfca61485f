"""Topics are copied from one cluster to another by real processes, and read back by an independent client."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla_core.wire.produce_request import FIRST_VERSION_BY_TOPIC_ID
from ottla_mirror.copy import target_producer
from ottla_mirror.copy.copier import Copier
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.partition_work import PartitionState
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.eventually_async import eventually_async
from tests.support.mirror.copy_worker import cluster_of, map_topic_of, partitions_of
from tests.support.mirror.memory_copy_store import MemoryCopyStore

pytestmark = pytest.mark.slow

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WITHIN_S = 60.0
Content = tuple[int, Any, Any, Any, Any]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    with OttlaCluster(tmp_path_factory.mktemp("source") / "cluster") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    with OttlaCluster(tmp_path_factory.mktemp("target") / "cluster") as cluster:
        yield cluster


def create(cluster: OttlaCluster, *topics: str, partitions: int = 1, replicas: int = 1, **configs: str) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = [NewTopic(each, partitions, replicas, config=settings) for each in topics]
    for created in admin.create_topics(wanted).values():
        created.result()


def end_of(consumer: Consumer, topic: str, number: int) -> int | None:
    """One more than the end offset of a partition; None while it has no leader."""
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1] + 1
    except KafkaException:
        return None


def contents(cluster: OttlaCluster, topic: str, partitions: int = 1) -> list[list[Content]]:
    """What a reader sees of each partition: the time and its kind, key, value and headers, in order."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    found: list[list[Content]] = [[] for _ in range(partitions)]
    try:
        ends = {
            number: eventually(lambda number=number: end_of(consumer, topic, number), f"the end of {topic}-{number}")
            - 1
            for number in range(partitions)
        }
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
        deadline = time.monotonic() + WITHIN_S
        while any(
            p.offset < ends[p.partition]
            for p in consumer.position([TopicPartition(topic, n) for n in ends if ends[n]])
        ):
            assert time.monotonic() < deadline, "not everything can be read back"
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None, message.error()
                found[message.partition()].append(
                    (*message.timestamp(), message.key(), message.value(), message.headers())  # type: ignore[arg-type]
                )
    finally:
        consumer.close()
    return found


def fill(cluster: OttlaCluster, topic: str, count: int, *, codec: str = "none", start: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "linger.ms": 5})
    for number in range(start, start + count):
        producer.produce(
            topic,
            key=None if number % 5 == 0 else b"key %d" % (number % 7),
            value=None if number % 11 == 0 else b"value %d " % number * (number % 40),
            headers=[("h", b"%d" % number), ("h", None)] if number % 3 == 0 else None,
            timestamp=1_700_000_000_000 - number,
            partition=0,
        )
    assert producer.flush(WITHIN_S) == 0


async def test_all_codecs_headers_nulls_and_timestamps_arrive_as_they_were(
    source: OttlaCluster, target: OttlaCluster
):
    topics = [f"codec-{codec}" for codec in CODECS]
    for cluster in (source, target):
        create(cluster, *topics, retention_ms="-1")
    for codec, topic in zip(CODECS, topics, strict=True):
        fill(source, topic, 2000, codec=codec)
    clusters = [cluster_of(each.bootstrap) for each in (source, target, target)]
    store = map_topic_of(clusters[2])
    await store.start()
    copier = Copier(clusters[0], clusters[1], store, CopySettings())
    await copier.assign(await partitions_of(clusters[0], topics))
    await eventually_async(
        lambda: sum(each.records for each in copier.status().values()) == 2000 * len(topics), "all are copied"
    )
    assert {each.state for each in copier.status().values()} == {PartitionState.RUNNING}
    assert {each.lag for each in copier.status().values()} == {0}
    await copier.close()
    for topic in topics:
        expected = await asyncio.to_thread(contents, source, topic)
        assert len(expected[0]) == 2000
        assert await asyncio.to_thread(contents, target, topic) == expected
    await store.read()
    copied = store.copy(topics[0], 0)
    assert copied is not None
    assert copied.map.translate(1234) == (1234, 0)
    for cluster in clusters:
        await cluster.close()


async def test_what_the_target_refuses_halts_the_partition_and_others_go_on(
    source: OttlaCluster, target: OttlaCluster
):
    create(source, "large", "small")
    create(target, "large", max_message_bytes="10000")
    create(target, "small")
    fill(source, "large", 3)
    fill(source, "small", 10)
    producer = Producer({"bootstrap.servers": source.bootstrap})
    producer.produce("large", b"x" * 50_000, partition=0)
    assert producer.flush(WITHIN_S) == 0
    clusters = [cluster_of(each.bootstrap) for each in (source, target)]
    copier = Copier(*clusters, MemoryCopyStore(), CopySettings())
    await copier.assign(await partitions_of(clusters[0], ["large", "small"]))

    def halted() -> list[str]:
        return [each.reason for each in copier.status().values() if each.state is PartitionState.HALTED]

    (reason,) = await eventually_async(halted, "a partition halts")
    assert "large-0, offsets 3 to 3: refused by the target: message_too_large" in reason
    await eventually_async(lambda: sum(each.records for each in copier.status().values()) == 13, "the others go on")
    await copier.close()

    create(target, "letters")
    AdminClient({"bootstrap.servers": target.bootstrap})
    fill(source, "large", 2, start=3)
    copier = Copier(*clusters, MemoryCopyStore(), CopySettings(dead_letter_topic="letters"))
    partitions = await partitions_of(clusters[0], ["large"])
    await copier.assign(partitions)
    (partition,) = partitions
    await eventually_async(lambda: copier.status()[partition].lag == 0, "all is copied or in the dead letter topic")
    assert copier.status()[partition].refused == 1
    await copier.close()
    ((letter,),) = await asyncio.to_thread(contents, target, "letters")
    assert letter[3] == b"x" * 50_000
    assert ("__ottla.mirror.offset", b"3") in letter[4]
    for cluster in clusters:
        await cluster.close()


async def test_a_paused_copy_rests_and_goes_on(source: OttlaCluster, target: OttlaCluster):
    for cluster in (source, target):
        create(cluster, "paused")
    fill(source, "paused", 10)
    clusters = [cluster_of(each.bootstrap) for each in (source, target)]
    copier = Copier(*clusters, MemoryCopyStore(), CopySettings())
    partitions = await partitions_of(clusters[0], ["paused"])
    (partition,) = partitions
    await copier.assign(partitions)
    await eventually_async(lambda: copier.status()[partition].records == 10, "the first are copied")
    copier.pause()
    fill(source, "paused", 10, start=10)
    assert copier.status()[partition].state is PartitionState.PAUSED
    copier.resume()
    await eventually_async(lambda: copier.status()[partition].records == 20, "the rest is copied")
    await copier.close()
    for cluster in clusters:
        await cluster.close()


async def test_a_copy_whose_topic_is_made_anew_is_filled_once(
    source: OttlaCluster, target: OttlaCluster, monkeypatch: pytest.MonkeyPatch
):
    """Batches name the topic as before Kafka 4.0, so the next one takes them, under whatever sequence they have."""
    monkeypatch.setattr(target_producer, "NEWEST_VERSION", FIRST_VERSION_BY_TOPIC_ID - 1)
    for cluster in (source, target):
        create(cluster, "anew")
    fill(source, "anew", 10)
    clusters = [cluster_of(each.bootstrap) for each in (source, target)]
    copier = Copier(*clusters, MemoryCopyStore(), CopySettings())
    partitions = await partitions_of(clusters[0], ["anew"])
    (partition,) = partitions
    await copier.assign(partitions)
    await eventually_async(lambda: copier.status()[partition].records == 10, "the first are copied")
    work = copier._works[partition]
    assert work.copy is not None
    former_id, former = work.target_topic_id, work.copy.session
    await asyncio.to_thread(make_anew, target, "anew")
    fill(source, "anew", 5, start=10)

    def is_copied_anew() -> bool:
        return work.copy is not None and work.copy.session != former and work.copy.map.source_end == 15

    await eventually_async(is_copied_anew, "the topic has everything again", within_s=WITHIN_S)
    copier._target.refresh()
    await eventually_async(lambda: work.target_topic_id != former_id and is_copied_anew(), "that is so for good")
    await copier.close()
    for closed in clusters:
        await closed.close()
    (wanted,), (found,) = contents(source, "anew"), contents(target, "anew")
    assert found[-len(wanted) :] == wanted
    # The batch by which it was noticed that the topic is another one stands before.
    assert found[: -len(wanted)] in ([], wanted[10:])


def make_anew(cluster: OttlaCluster, topic: str) -> None:
    """Deletes a topic, and creates another one of its name at once."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result()

    def is_created() -> bool:
        try:
            create(cluster, topic)
        except KafkaException:
            return False
        return True

    eventually(is_created, f"{topic} is created anew")


class Workers:
    """Processes that copy the same partitions at the same time."""

    def __init__(self, source: OttlaCluster, target: OttlaCluster, topic: str, log: Path):
        self._command = [
            sys.executable,
            "-m",
            "tests.support.mirror.copy_worker",
            source.bootstrap,
            target.bootstrap,
            topic,
        ]
        self._log = log
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        with self._log.open("ab") as output:
            self.processes.append(subprocess.Popen(self._command, stdout=output, stderr=output))

    def kill(self, number: int) -> None:
        process = self.processes.pop(number)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(30)


def test_killed_workers_and_brokers_cost_no_record_and_repeat_none(tmp_path: Path):
    chosen = random.Random(int(os.environ.get("OTTLA_TEST_SEED", "1")))
    partitions = 4
    with OttlaCluster(tmp_path / "a", brokers=2) as source, OttlaCluster(tmp_path / "b", brokers=2) as target:
        for cluster in (source, target):
            create(cluster, "t", partitions=partitions, replicas=2, min_insync_replicas="2")
        workers = Workers(source, target, "t", tmp_path / "workers.log")
        workers.start()
        workers.start()
        settings = {"bootstrap.servers": source.bootstrap, "enable.idempotence": True, "linger.ms": 2}
        producer = Producer(settings | {"compression.type": "lz4"})
        try:
            for number in range(24_000):
                producer.produce("t", b"%d" % number, b"k%d" % (number % 9), partition=chosen.randrange(partitions))
                producer.poll(0.002 if number % 20 == 0 else 0)
                if number % 2000 == 1999:
                    break_something(chosen, source, target, workers)
            assert producer.flush(2 * WITHIN_S) == 0
            expected = contents(source, "t", partitions)
            assert sum(map(len, expected)) == 24_000
            eventually(
                lambda: sum(map(len, contents(target, "t", partitions))) >= 24_000,
                "all is copied",
                within_s=2 * WITHIN_S,
            )
            workers.stop()
        finally:
            for _ in list(workers.processes):
                workers.kill(0)
        assert contents(target, "t", partitions) == expected, (tmp_path / "workers.log").read_text()[-4000:]


def break_something(chosen: random.Random, source: OttlaCluster, target: OttlaCluster, workers: Workers) -> None:
    kind = chosen.choice(("worker", "worker", "source", "target"))
    if kind == "worker":
        workers.kill(chosen.randrange(len(workers.processes)))
        workers.start()
        return
    cluster = source if kind == "source" else target
    eventually(lambda: kill_a_broker(chosen, cluster), "a broker runs that can be killed")


def kill_a_broker(chosen: random.Random, cluster: OttlaCluster) -> bool:
    """Kills one; False if that cannot be done now, because one is just being started again."""
    try:
        brokers = [each for each in cluster.refresh() if each.role == "broker"]
        os.kill(chosen.choice(brokers).pid, signal.SIGKILL)
    except (subprocess.CalledProcessError, ProcessLookupError):
        return False
    return True
