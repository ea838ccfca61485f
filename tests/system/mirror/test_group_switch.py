"""Groups switch to the copy in mid-stream, at 100 random moments, from a Kafka with transactions, some aborted.

What a group had consumed is counted by an independent reader of both sides: what it consumed at the source, and what
it finds at the target from its offset on, is everything once.
"""

import asyncio
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla_core.client.group.cluster_groups import ClusterGroups
from ottla_core.client.group.offset_requests import CommittedOffset
from ottla_core.topic_partition import TopicPartition as Partition
from tests.support.clients.client_cluster import opened_cluster
from tests.support.eventually_async import eventually_async
from tests.support.mirror.mirror_worker import MirrorWorkerProcess, flow_path
from tests.support.reference.reference_kafka import ReferenceKafka

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]

SEED = 30
SWITCHES = 100
PARTITIONS = 3
TRANSACTION_RECORDS_MAX = 8
TOPIC = "payments"
REMOTE = "K.payments"
FLOW = "K->T"

Log = dict[int, dict[int, str]]
"""Values by partition and offset."""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[ReferenceKafka]:
    single = {
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "offsets.topic.replication.factor": "1",
    }
    with ReferenceKafka(tmp_path / "kafka", settings=single) as running:
        yield running


class Writer:
    """Writes transactions until it is stopped; each value once."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer", "linger.ms": 0})
        self._chance = random.Random(SEED)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._producer.init_transactions(30)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        value = 0
        while not self._ending.wait(0.002):
            self._producer.begin_transaction()
            for _ in range(self._chance.randint(1, TRANSACTION_RECORDS_MAX)):
                self._producer.produce(TOPIC, str(value), partition=self._chance.randrange(PARTITIONS))
                value += 1
            if self._chance.random() < 0.3:
                self._producer.abort_transaction(30)
            else:
                self._producer.commit_transaction(30)


def read(bootstrap: str, topic: str) -> Log:
    """What a reader of committed records finds."""
    settings = {"group.id": "independent", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed", **settings})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: Log = {number: {} for number in range(PARTITIONS)}
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(30.0)
        assert message is not None, f"{topic} cannot be read"
        if message.error() is not None:
            ended.add(message.partition())
        else:
            found[message.partition()][message.offset()] = message.value().decode()
    consumer.close()
    return found


def ends(bootstrap: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(TOPIC, number), timeout=10)[1]
            for number in range(PARTITIONS)
        }
    finally:
        consumer.close()


async def test_groups_that_switch_miss_nothing_and_repeat_nothing(
    kafka: ReferenceKafka, bootstrap: str, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    settings = {
        "clusters": "K, T",
        "K.bootstrap.servers": kafka.bootstrap,
        "T.bootstrap.servers": bootstrap,
        "K->T.enabled": "true",
        "K->T.topics": TOPIC,
    }
    committed: dict[str, dict[int, int]] = {}
    answers: dict[str, dict[int, tuple[int, int]]] = {}
    async with opened_cluster(kafka.bootstrap) as source:
        groups = ClusterGroups(source)
        with MirrorWorkerProcess(tmp_path / "mirror", settings) as worker:
            with Writer(kafka.bootstrap):
                await eventually_async(
                    lambda: worker.flow(FLOW, "lag")["state"] == "RUNNING", "the flow runs", within_s=60
                )
                for number in range(SWITCHES):
                    group = f"switching-{number}"
                    now = await asyncio.to_thread(ends, kafka.bootstrap)
                    # Half of them are at the end of what there is.
                    at = {each: end if chance.random() < 0.5 else chance.randint(0, end) for each, end in now.items()}
                    committed[group] = at
                    await groups.store(
                        group, {Partition(TOPIC, each): CommittedOffset(offset, "") for each, offset in at.items()}
                    )
                    answers[group] = await asyncio.to_thread(switched, worker, group)
            await eventually_async(
                lambda: worker.flow(FLOW, "lag")["lag_records"] == 0, "all is copied, markers too", within_s=60
            )
            here, there = (
                await asyncio.to_thread(read, kafka.bootstrap, TOPIC),
                await asyncio.to_thread(read, bootstrap, REMOTE),
            )
    for each in range(PARTITIONS):
        assert list(here[each].values()) == list(there[each].values())
        assert len(here[each]) < max(here[each], default=0), "there are no markers"
    late = 0
    for group, at in committed.items():
        for each, offset in at.items():
            target_offset, not_copied = answers[group][each]
            consumed = [value for place, value in here[each].items() if place < offset]
            left = [value for place, value in there[each].items() if place >= target_offset]
            assert set(consumed) | set(left) == set(here[each].values()), f"{group} has missed records"
            if not_copied:
                late += 1
            else:
                assert not set(consumed) & set(left), f"{group} gets records again that it had committed"
    assert late < SWITCHES * PARTITIONS / 10


def switched(worker: MirrorWorkerProcess, group: str) -> dict[int, tuple[int, int]]:
    """Has a group translated now; its target offset by partition, and how far the copy was behind it."""
    answer = worker.ask("POST", flow_path(FLOW, "groups", group, "sync"))
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["written"], told
    return {each["partition"]: (each["target_offset"], each["records_not_copied"]) for each in told["partitions"]}
