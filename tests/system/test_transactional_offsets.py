"""Offsets in transactions while group coordinators and brokers die: each record is processed exactly once.

Two librdkafka producers consume, produce and commit what they have consumed in transactions, some of which they abort
by choice. Meanwhile processes are killed. In the end the output has each record of the input once for those who read
what is committed, and the group is at the end of the input.
"""

import contextlib
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

PARTITIONS = 4
RECORDS = 4_000
RECORDS_PER_TRANSACTION = 10
FAULTS = ("group-coordinator", "broker", "group-coordinator")
ABORTED_SHARE = 0.1
DEADLINE_S = 120.0
CALL_S = 20.0
SOURCE, TARGET, GROUP = "source", "target", "copiers"
QUIET = {"log_level": 0}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OttlaCluster]:
    with OttlaCluster(tmp_path / "cluster", brokers=3, coordinators=2) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
        for made in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (SOURCE, TARGET)]).values():
            made.result()
        yield cluster


class Copier:
    """Copies records in transactions until it is stopped.

    Attributes:
        problems: what happened that it went on after.
    """

    def __init__(self, bootstrap: str, name: str, seed: int) -> None:
        self._common = {"bootstrap.servers": bootstrap, **QUIET}
        self._name = name
        self._chance = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self.problems: list[str] = []

    def __enter__(self) -> "Copier":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = group_consumer(self._common, GROUP)
        consumer.subscribe([SOURCE])
        producer = self._fresh()
        while not self._stopping.is_set():
            messages = [each for each in consumer.consume(RECORDS_PER_TRANSACTION, timeout=0.5) if not each.error()]
            if messages and not self._copy(consumer, producer, messages):
                producer = self._abort(producer)
                self._go_back(consumer)
        consumer.close()

    def _fresh(self) -> Producer:
        while True:
            producer = Producer({**self._common, "transactional.id": self._name, "transaction.timeout.ms": 10_000})
            try:
                producer.init_transactions(CALL_S)
            except KafkaException as error:
                self.problems.append(f"init: {error}")
                if self._stopping.is_set():
                    return producer
            else:
                return producer

    def _copy(self, consumer: Consumer, producer: Producer, messages: list[Any]) -> bool:
        try:
            producer.begin_transaction()
            for each in messages:
                producer.produce(TARGET, each.value(), partition=each.partition())
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), CALL_S)
            if self._chance.random() < ABORTED_SHARE:
                return False
            while True:
                try:
                    producer.commit_transaction(CALL_S)
                except KafkaException as error:
                    if not error.args[0].retriable():
                        raise
                else:
                    return True
        except KafkaException as error:
            self.problems.append(f"copy: {error}")
            return False

    def _abort(self, producer: Producer) -> Producer:
        try:
            producer.abort_transaction(CALL_S)
        except KafkaException as error:
            self.problems.append(f"abort: {error}")
            return self._fresh()
        return producer

    def _go_back(self, consumer: Consumer) -> None:
        while not self._stopping.is_set():
            try:
                for each in consumer.committed(consumer.assignment(), CALL_S):
                    consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
            except KafkaException as error:
                self.problems.append(f"go back: {error}")
                consumer.poll(0.1)
            else:
                return


def group_consumer(common: dict[str, Any], group: str) -> Consumer:
    return Consumer(
        {
            **common,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6_000,
        }
    )


def test_each_record_is_processed_once_while_coordinators_and_brokers_die(cluster: OttlaCluster) -> None:
    seed = int(os.environ.get("OTTLA_TEST_SEED", random.randrange(1 << 32)))
    print(f"OTTLA_TEST_SEED={seed}")
    chance = random.Random(seed)
    common = {"bootstrap.servers": cluster.bootstrap, **QUIET}
    source = Producer(common)
    for number in range(RECORDS):
        source.produce(SOURCE, str(number).encode(), partition=number % PARTITIONS)
    assert source.flush(CALL_S) == 0
    watcher = group_consumer(common, GROUP)
    copied = 0
    with Copier(cluster.bootstrap, "one", seed) as one, Copier(cluster.bootstrap, "two", seed + 1) as two:
        for role in FAULTS:
            reached = copied + RECORDS // 8
            eventually(lambda: progress(watcher) >= reached, "some are copied", within_s=DEADLINE_S)  # noqa: B023
            copied = reached
            killed = chance.choice([each for each in cluster.services if each.role == role])
            print(f"kill of {role} {killed.id} after {copied}")
            kill(killed.pid)
        eventually(lambda: progress(watcher) == RECORDS, "all are copied", within_s=DEADLINE_S)
    problems = one.problems + two.problems
    found = [int(value) for value in read_committed(common)]
    assert sorted(found) == list(range(RECORDS)), f"{len(found)} records, {len(set(found))} different; {problems}"
    watcher.close()


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it was killed before, and runs again under another id
        os.kill(pid, signal.SIGKILL)


def progress(watcher: Consumer) -> int:
    """How many records the group has processed, as its stable offsets say."""
    try:
        committed = watcher.committed([TopicPartition(SOURCE, index) for index in range(PARTITIONS)], CALL_S)
    except KafkaException:
        return 0
    return sum(max(each.offset, 0) for each in committed)


def read_committed(common: dict[str, Any]) -> list[bytes]:
    """Everything in the target that is committed."""
    reader = group_consumer(common, "reader")
    places = [TopicPartition(TARGET, index) for index in range(PARTITIONS)]
    ends = {place.partition: reader.get_watermark_offsets(place, CALL_S)[1] for place in places}
    reader.assign([TopicPartition(TARGET, index, 0) for index in range(PARTITIONS)])
    found: list[bytes] = []

    def is_at_end() -> bool:
        found.extend(each.value() for each in reader.consume(500, timeout=0.5) if not each.error())
        return all(each.offset >= ends[each.partition] for each in reader.position(places))

    eventually(is_at_end, "all is read", within_s=DEADLINE_S)
    reader.close()
    return found
