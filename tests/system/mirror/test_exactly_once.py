"""With `exactly.once.source.support=enabled`, readers of committed records see each record once at the target.

Workers are killed over and over while the source is written to, in the middle of transactions. What they have left
open is aborted by whoever takes over. The target is a cluster of Ottla, and Kafka where its jars are.
"""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla_mirror.copy.copier import Copier
from ottla_mirror.copy.copy_settings import CopySettings, TransactionSettings
from ottla_mirror.copy.transactions.target_transactions import TargetTransactions
from tests.support.clients.committed_offsets import commit_offsets
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually
from tests.support.eventually_async import eventually_async
from tests.support.mirror.copy_worker import cluster_of, map_topic_of, partitions_of
from tests.support.mirror.mirror_worker import MirrorWorkerProcess
from tests.support.reference.reference_kafka import ReferenceKafka

pytestmark = pytest.mark.slow

SEED = 618
PARTITIONS = 4
KILLS = 8
BETWEEN_KILLS_S = (0.3, 2.5)
COPY_DEADLINE_S = 120.0
READ_DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OttlaCluster(tmp_path_factory.mktemp("source") / "cluster") as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OttlaCluster(tmp_path_factory.mktemp("target") / "cluster") as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ReferenceKafka(tmp_path_factory.mktemp("kafka") / "node") as node:
        yield node.bootstrap


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()


class Load:
    """Writes numbered records to all partitions of a topic, some of them in transactions, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self.written: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
        self._chosen = random.Random(seed)
        self._topic = topic
        self._plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2})
        self._transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"load-{topic}"})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._transactional.init_transactions(30)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        assert self._plain.flush(30) == 0

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(0.02):
            count = self._chosen.randrange(1, 40)
            partition = self._chosen.randrange(PARTITIONS)
            values = [str(each) for each in range(number, number + count)]
            number += count
            is_transactional = self._chosen.random() < 0.3
            producer = self._transactional if is_transactional else self._plain
            if is_transactional:
                producer.begin_transaction()
            for value in values:
                producer.produce(self._topic, value=value, partition=partition)
            if not is_transactional:
                # Before anything else is written, or the order would not be known.
                assert producer.flush(30) == 0
            elif self._chosen.random() < 0.3:
                producer.abort_transaction(30)
                continue
            else:
                producer.commit_transaction(30)
            self.written[partition] += values


def committed_values(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> dict[int, list[str]]:
    """What an independent reader of committed records finds in a topic, to its end."""
    settings = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **settings})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    values: dict[int, list[str]] = {number: [] for number in range(partitions)}
    ended: set[int] = set()
    deadline_s = time.monotonic() + READ_DEADLINE_S
    try:
        while len(ended) < partitions:
            assert time.monotonic() < deadline_s, f"{topic} cannot be read"
            for message in consumer.consume(1000, timeout=0.5):
                if message.error() is not None:
                    ended.add(message.partition() or 0)
                else:
                    values[message.partition() or 0].append((message.value() or b"").decode())
    finally:
        consumer.close()
    return values


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_consumer_group_offsets([request])[group].result()
    return int(found.topic_partitions[0].offset)


def value_at(bootstrap: str, topic: str, offset: int) -> str:
    """The first committed record at an offset or behind it, in partition 0."""
    settings = {"group.id": "one", "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, offset)])
    try:
        message = eventually(lambda: consumer.poll(1.0), f"{topic} has a record at {offset}")
        assert message.error() is None
        return (message.value() or b"").decode()
    finally:
        consumer.close()


def properties(source: str, target: str, alias: str, topics: str, **settings: str) -> dict[str, str]:
    return {
        "clusters": f"{alias}, T",
        f"{alias}.bootstrap.servers": source,
        "T.bootstrap.servers": target,
        f"{alias}->T.enabled": "true",
        f"{alias}->T.topics": topics,
        "T.exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "300",
        "group.id": f"mirror-{alias}",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }


@contextmanager
def workers(directory: Path, settings: dict[str, str], count: int) -> Iterator[list[MirrorWorkerProcess]]:
    with ExitStack() as closing:
        started = [
            closing.enter_context(MirrorWorkerProcess(directory, settings, name=f"mirror-{number}"))
            for number in range(count)
        ]
        yield started


def is_copied(worker: MirrorWorkerProcess, flow: str) -> bool:
    lag = worker.flow(flow, "lag")
    return bool(lag["state"] == "RUNNING" and lag["lag_records"] == 0 and lag["partitions_unknown"] == 0)


def is_halted(worker: MirrorWorkerProcess, flow: str) -> bool:
    return any(each["state"] == "HALTED" for each in worker.flow(flow, "status")["partitions"])


def killed_under_load(source: str, target: str, alias: str, directory: Path) -> None:
    """Kills one of two workers over and over while records are written, and compares both sides then."""
    topic, group, flow = f"{alias}-load", f"{alias}-group", f"{alias}->T"
    create(source, topic, PARTITIONS)
    chosen = random.Random(SEED)
    print(f"seed {SEED}")
    load = Load(source, topic, SEED)
    settings = properties(source, target, alias, topic, sync_group_offsets_enabled="true", groups=f"{alias}-.*")
    with workers(directory, settings, 2) as started:
        load.start()
        try:
            for _ in range(KILLS):
                time.sleep(
                    chosen.uniform(*BETWEEN_KILLS_S)
                )  # the load goes on; what is hit follows from the seed only
                victim = chosen.choice(started)
                victim.kill()
                victim.start()
        finally:
            load.stop()
        place = len(load.written[0]) // 2
        offset = offset_of(source, topic, load.written[0][place])
        commit_offsets(source, group, [TopicPartition(topic, 0, offset)])
        eventually(lambda: is_copied(started[0], flow), "all is copied", within_s=COPY_DEADLINE_S)
        copied = f"{alias}.{topic}"
        count = sum(map(len, load.written.values()))
        eventually(
            lambda: sum(map(len, committed_values(target, copied).values())) >= count,
            "all is committed",
            within_s=COPY_DEADLINE_S,
        )
        assert committed_values(target, copied) == load.written
        Ottla(target).run("mirror", "verify", topic, "--source", source, "--alias", alias)
        eventually(lambda: committed_offset(target, group, copied) > 0, "the group is translated", within_s=60)
        translated = committed_offset(target, group, copied)
        assert value_at(target, copied, translated) == load.written[0][place]


def offset_of(bootstrap: str, topic: str, value: str) -> int:
    """The offset of a record of partition 0."""
    settings = {"group.id": "offsets", "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline_s = time.monotonic() + READ_DEADLINE_S
    try:
        while time.monotonic() < deadline_s:
            for message in consumer.consume(1000, timeout=0.5):
                offset, found = message.offset(), message.value()
                if offset is not None and found == value.encode():
                    return offset
        raise AssertionError(f"{topic} has no record {value}")
    finally:
        consumer.close()


def test_workers_killed_under_load_copy_each_record_exactly_once(source: str, target: str, tmp_path: Path) -> None:
    killed_under_load(source, target, "E", tmp_path)


def test_workers_killed_under_load_copy_each_record_exactly_once_to_kafka(
    source: str, kafka: str, tmp_path: Path
) -> None:
    killed_under_load(source, kafka, "K", tmp_path)


def write(bootstrap: str, topic: str, values: range, *, padding: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.num.messages": 20})
    for value in values:
        producer.produce(topic, value=str(value).rjust(padding))
        producer.poll(0)
    assert producer.flush(30) == 0


def test_a_flow_is_switched_to_transactions_and_back_and_repeats_nothing(
    source: str, target: str, tmp_path: Path
) -> None:
    create(source, "S-switched")
    written = 0
    for support in ("disabled", "enabled", "disabled", "preparing", "enabled"):
        settings = properties(source, target, "S", "S-switched", T_exactly_once_source_support=support)
        with workers(tmp_path / f"{written}", settings, 1) as (worker,):
            write(source, "S-switched", range(written, written + 500))
            written += 500
            eventually(lambda: is_copied(worker, "S->T"), f"all is copied ({support})", within_s=COPY_DEADLINE_S)
            worker.kill()  # what it has stored is behind what it has copied
    with workers(tmp_path / "last", settings, 1) as (worker,):
        eventually(lambda: is_copied(worker, "S->T"), "all is copied", within_s=COPY_DEADLINE_S)
        wanted = {0: [str(each) for each in range(written)]}
        eventually(
            lambda: len(committed_values(target, "S.S-switched", 1)[0]) >= written,
            "all is committed",
            within_s=COPY_DEADLINE_S,
        )
        assert committed_values(target, "S.S-switched", 1) == wanted


@pytest.mark.parametrize("keeps", ["halt", "dead.letter.topic"])
def test_a_batch_that_the_target_refuses_is_kept_apart_and_all_before_it_is_committed(
    source: str, target: str, tmp_path: Path, keeps: str
) -> None:
    alias = "H" if keeps == "halt" else "L"
    topic, flow = f"{alias}-large", f"{alias}->T"
    create(source, topic)
    create(target, f"{alias}.refused")
    admin = AdminClient({"bootstrap.servers": target})
    small = NewTopic(f"{alias}.{topic}", 1, 1, config={"max.message.bytes": "10000"})
    admin.create_topics([small])[f"{alias}.{topic}"].result()
    write(source, topic, range(50))
    write(source, topic, range(50, 51), padding=20_000)
    write(source, topic, range(51, 100))
    settings = properties(
        source,
        target,
        alias,
        topic,
        existing_topics="adopt",
        refused_batches=keeps,
        sync_topic_configs_enabled="false",
    )
    with workers(tmp_path, settings, 1) as (worker,):
        if keeps == "halt":
            eventually(lambda: is_halted(worker, flow), "it halts", within_s=COPY_DEADLINE_S)
            wanted = [str(each) for each in range(50)]
        else:
            eventually(lambda: is_copied(worker, flow), "all is copied", within_s=COPY_DEADLINE_S)
            wanted = [str(each) for each in range(100) if each != 50]
        eventually(lambda: committed_values(target, f"{alias}.{topic}", 1)[0] == wanted, "what is taken is committed")
        letters = [each.strip() for each in committed_values(target, f"{alias}.refused", 1)[0]]
        assert letters == ([] if keeps == "halt" else ["50"])


async def test_the_protocol_of_older_clusters_serves_as_well(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = TargetTransactions.look

    async def look_as_before_version_2(self: TargetTransactions) -> None:
        await look(self)
        self.is_version_2, self._end_version = False, 1
        self._add_version = 1

    monkeypatch.setattr(TargetTransactions, "look", look_as_before_version_2)
    topic = "old-protocol"
    for bootstrap in (source, target):
        create(bootstrap, topic)
    write(source, topic, range(300))
    clusters = [cluster_of(each) for each in (source, target, target, target)]
    store = map_topic_of(clusters[2])
    await store.start()
    settings = CopySettings(source_alias="source", transactions=TransactionSettings(interval_s=0.2, bytes_max=2000))
    for end in (300, 600):  # the second worker takes over from the first
        copier = Copier(clusters[0], clusters[1], store, settings, clusters[3:])
        await copier.assign(await partitions_of(clusters[0], [topic]))
        await eventually_async(lambda copier=copier, end=end: at_end(copier, end), "all is copied")
        await copier.close()
        if end == 300:
            write(source, topic, range(300, 600))
    assert (await asyncio.to_thread(committed_values, target, topic, 1))[0] == [str(each) for each in range(600)]
    for cluster in clusters:
        await cluster.close()


def at_end(copier: Copier, end: int) -> bool:
    return [each.source_offset for each in copier.status().values()] == [end]
