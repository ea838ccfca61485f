"""Consumer groups that go on at the target when linked topics are promoted in mid-stream, at 100 random moments.

Each moment has a topic and a group of its own. The group's consumer reads some of what is being written at the
source, commits somewhere on the way, and stops. The topic is promoted while it is written to, and a consumer of the
same group goes on at the target. At every other moment nobody waits until the group's offsets have come along.
"""

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from ottla_core.client.blocking_connection import BlockingConnection
from ottla_core.client.links import Answer, Question, ask_links_blocking, keep_links, promote
from ottla_core.client.security import ClientSecurity
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

SEED = 31
SWITCHES = 100
PARTITIONS = 2
WRITTEN_AHEAD = 20
TOPICS = tuple(f"stream-{number}" for number in range(SWITCHES))

Place = tuple[int, int]
"""Partition and offset."""


class Consumed(NamedTuple):
    """What a group has read at the source, and the offsets that it has committed there."""

    values: dict[Place, str]
    committed: dict[int, int]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OttlaCluster(tmp_path_factory.mktemp("clusters") / "source") as cluster:
        yield cluster.bootstrap


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    with OttlaCluster(tmp_path / "target") as cluster:
        yield cluster.bootstrap


class Writer:
    """Writes numbered records to all topics of the source until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2})
        self._chance = random.Random(SEED)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        number = 0
        while not self._ending.wait(0.002):
            topic, partition = self._chance.choice(TOPICS), self._chance.randrange(PARTITIONS)
            self._producer.produce(topic, str(number), partition=partition)
            self._producer.poll(0)
            number += 1


def ask(bootstrap: str, question: Question[Answer]) -> Answer:
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    with BlockingConnection(host, int(port), security=ClientSecurity(), client_id="test") as connection:
        return ask_links_blocking(connection, question)


def consumer_of(bootstrap: str, group: str) -> Consumer:
    settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return Consumer({"bootstrap.servers": bootstrap, **settings})


def partitions_of(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def committed(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """A group's offsets; 0 where it has none."""
    consumer = consumer_of(bootstrap, group)
    try:
        found = consumer.committed(partitions_of(topic), timeout=30)
        return {each.partition: max(0, each.offset) for each in found}
    finally:
        consumer.close()


def read(consumer: Consumer, topic: str, count: int) -> list[Message]:
    """So many records of a topic, from where the group goes on."""
    consumer.assign(partitions_of(topic))
    found: list[Message] = []

    def complete() -> bool:
        found.extend(each for each in consumer.consume(count - len(found), 1.0) if each.error() is None)
        return len(found) == count

    eventually(complete, f"{count} records of {topic} are read", within_s=60)
    return found


def placed(messages: list[Message]) -> dict[Place, str]:
    return {(each.partition(), each.offset()): each.value().decode() for each in messages}


def consumed(bootstrap: str, group: str, topic: str, chance: random.Random) -> Consumed:
    """Has a group read some of what there is, and commit somewhere on the way."""
    consumer = consumer_of(bootstrap, group)
    try:
        count = sum(end for end in ends(consumer, topic).values())
        messages = read(consumer, topic, chance.randint(1, count))
        at: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        for message in messages[: chance.randint(1, len(messages))]:
            at[message.partition()] = message.offset() + 1
        offsets = [TopicPartition(topic, partition, offset) for partition, offset in at.items() if offset]
        consumer.commit(offsets=offsets, asynchronous=False)
        return Consumed(placed(messages), at)
    finally:
        consumer.close()


def ends(consumer: Consumer, topic: str) -> dict[int, int]:
    return {each.partition: consumer.get_watermark_offsets(each, timeout=30)[1] for each in partitions_of(topic)}


def write_all(bootstrap: str, topics: tuple[str, ...], what: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for topic in topics:
        for number in range(count):
            producer.produce(topic, f"{what}-{number}", partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def everything(bootstrap: str, topic: str) -> dict[Place, str]:
    consumer = consumer_of(bootstrap, "independent")
    try:
        return placed(read(consumer, topic, sum(ends(consumer, topic).values())))
    finally:
        consumer.close()


def go_on(bootstrap: str, group: str, topic: str, at: dict[int, int]) -> dict[Place, str]:
    """What a consumer of the group reads at the target, up to the end."""
    consumer = consumer_of(bootstrap, group)
    try:
        return placed(read(consumer, topic, sum(end - at[each] for each, end in ends(consumer, topic).items())))
    finally:
        consumer.close()


def test_groups_that_switch_to_promoted_topics_miss_nothing_and_have_the_same_offsets(
    source: str, target: str
) -> None:
    chance = random.Random(SEED)
    Ottla(source).run("topic", "create", *TOPICS, "--partitions", str(PARTITIONS))
    write_all(source, TOPICS, "ahead", WRITTEN_AHEAD)
    link = ("mirror", "link", "create", "west", "--source", source, "--topics", "stream-.*", "--wait")
    Ottla(target).run(*link, "--set", "sync.group.offsets.interval.seconds=1", "--groups", "switching-.*")

    switched: dict[str, Consumed] = {}
    with Writer(source):
        for number, topic in enumerate(TOPICS):
            group = f"switching-{number}"
            switched[topic] = consumed(source, group, topic, chance)

            def has_come(group: str = group, topic: str = topic) -> bool:
                ask(target, keep_links())
                return committed(target, group, topic) == switched[topic].committed

            if number % 2:
                eventually(has_come, f"{group} has its offsets", within_s=60)
            assert ask(target, promote("west", [topic]))
    write_all(target, TOPICS, "after", PARTITIONS)  # what is promoted is written

    for number, topic in enumerate(TOPICS):
        group, before = f"switching-{number}", switched[topic]
        at, there, here = committed(target, group, topic), everything(source, topic), everything(target, topic)
        copied = {place: value for place, value in here.items() if not value.startswith("after")}
        assert copied.items() <= there.items(), f"{topic} is not a beginning of its source"
        assert all(at[each] <= before.committed[each] for each in range(PARTITIONS)), f"{group} would skip records"
        if number % 2:
            assert at == before.committed, f"{group} has other offsets"
        left = go_on(target, group, topic, at)
        acknowledged = {place for place in copied if place[1] < before.committed[place[0]]}
        assert acknowledged <= before.values.keys()
        assert copied.keys() <= before.values.keys() | left.keys(), f"{group} misses records"
        assert sum(value.startswith("after") for value in left.values()) == PARTITIONS
        if number % 2:
            repeated = before.values.keys() & left.keys() & copied.keys()
            assert all(offset >= before.committed[partition] for partition, offset in repeated), f"{group} repeats"
