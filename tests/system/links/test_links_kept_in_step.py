"""Links that brokers keep in step with their sources by themselves, between two clusters of real processes."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.clients.committed_offsets import commit_offsets
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

EVERY_SECOND = (
    "--set", "refresh.topics.interval.seconds=1", "--set", "sync.group.offsets.interval.seconds=1",
)  # fmt: skip
SELDOM = (
    "--set", "refresh.topics.interval.seconds=3600", "--set", "sync.group.offsets.interval.seconds=3600",
)  # fmt: skip
"""For what happens when somebody asks for it: `refresh` returns when all has been looked at."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ottla]:
    with OttlaCluster(tmp_path_factory.mktemp("clusters") / "source") as cluster:
        yield Ottla(cluster.bootstrap)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Ottla]:
    with OttlaCluster(tmp_path / "target") as cluster:
        yield Ottla(cluster.bootstrap)


def bootstrap(cluster: Ottla) -> str:
    return cluster.environment["OTTLA_BOOTSTRAP"]


def link(source: Ottla, target: Ottla, pattern: str, *arguments: str) -> None:
    target.run("mirror", "link", "create", "west", "--source", bootstrap(source), "--topics", pattern, *arguments)


def refresh(target: Ottla, *arguments: str, fails_with: int = 0) -> dict[str, Any]:
    found = target.json("mirror", "link", "refresh", "west", *arguments, fails_with=fails_with)
    assert isinstance(found, dict)
    return found


def problems(keeping: dict[str, Any]) -> set[tuple[str, str]]:
    return {(each["kind"], each["name"]) for each in keeping["problems"]}


def followed(target: Ottla) -> dict[str, tuple[int, int]]:
    """Partitions of linked topics, and how many of them follow."""
    (listed,) = target.json("mirror", "link", "list")
    return {each["topic"]: (each["partitions"], each["following"]) for each in listed["topics"]}


def settings(cluster: Ottla, topic: str) -> dict[str, str]:
    described = cluster.json("config", "describe", "topic", topic)
    return {each["key"]: each["value"] for each in described}


def write(cluster: Ottla, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap(cluster), "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(60) == 0


def commit(cluster: Ottla, group: str, topic: str, offset: int) -> None:
    """Has a group without members be at an offset."""
    commit_offsets(bootstrap(cluster), group, [TopicPartition(topic, 0, offset)])


def committed(cluster: Ottla, group: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap(cluster)})
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    (future,) = admin.list_consumer_group_offsets([wanted]).values()
    try:
        return int(future.result(30).topic_partitions[0].offset)
    except KafkaException as error:  # the coordinator is not there yet
        raise ConnectionError(str(error)) from error


def test_new_topics_partitions_and_settings_come_by_themselves(source: Ottla, target: Ottla) -> None:
    link(source, target, "new.*", *EVERY_SECOND, "--set", "topics.exclude=.*-private")
    source.run("topic", "create", "new-private")
    source.run("topic", "create", "new", "--partitions", "1", "--config", "retention.ms=3600000")
    eventually(lambda: followed(target) == {"new": (1, 1)}, "the topic follows", within_s=30)
    assert settings(target, "new")["retention.ms"] == "3600000"

    source.run("topic", "alter", "new", "--partitions", "3")
    eventually(lambda: followed(target) == {"new": (3, 3)}, "the topic has grown", within_s=30)

    target.run("config", "set", "topic", "new", "min.insync.replicas=1")
    source.run("config", "set", "topic", "new", "segment.bytes=2000000", "min.insync.replicas=1")
    source.run("config", "delete", "topic", "new", "retention.ms")
    eventually(lambda: "retention.ms" not in own(target, "new"), "settings are followed", within_s=30)
    assert own(target, "new") == {"segment.bytes": "2000000", "min.insync.replicas": "1"}

    write(source, "new", 100)
    target.run("mirror", "link", "status", "west", "--wait")
    verified = target.json("mirror", "verify", "new", "--source", bootstrap(source), "--linked", "--wait", "30")
    assert {each["state"] for each in verified} == {"equal"}


def own(cluster: Ottla, topic: str) -> dict[str, str]:
    """The settings that a topic has itself."""
    described = cluster.json("config", "describe", "topic", topic)
    return {each["key"]: each["value"] for each in described if "topic" in each["source"]}


def test_what_is_here_deleted_promoted_or_paused_is_left_as_it_is(source: Ottla, target: Ottla) -> None:
    source.run("topic", "create", "left", "left.taken", "left.gone", "left.promoted")
    target.run("topic", "create", "left.taken", "--partitions", "2")
    link(source, target, "lef", *SELDOM)
    target.run("mirror", "link", "alter", "west", "--topics", "left.*", "--topics", "__.*")
    found = refresh(target)
    assert followed(target).keys() == {"left", "left.gone", "left.promoted"}
    assert problems(found) == {("TOPIC_NOT_LINKED", "left.taken")}
    assert "left.taken" in target.run("mirror", "link", "status", "west", "--wait").stdout.decode()
    write(target, "left.taken", 3)

    target.run("mirror", "link", "promote", "west", "left.promoted", "--yes")
    target.run("topic", "delete", "left.promoted", "--yes")
    source.run("topic", "delete", "left.gone", "--yes")
    found = refresh(target)
    assert problems(found) == {
        ("TOPIC_NOT_LINKED", "left.taken"),
        ("TOPIC_PROMOTED", "left.promoted"),
        ("TOPIC_DELETED", "left.gone"),
    }
    assert followed(target).keys() == {"left", "left.gone"}
    assert refresh(target, "--again", "left.promoted")["changed_topics"] == ["left.promoted"]

    target.run("mirror", "link", "pause", "west")
    source.run("topic", "create", "left.paused")
    source.run("topic", "alter", "left", "--partitions", "4")
    assert refresh(target)["changed_topics"] == []
    target.run("mirror", "link", "resume", "west")
    expected = {"left": (4, 4), "left.gone": (1, 1), "left.promoted": (1, 1), "left.paused": (1, 1)}
    eventually(lambda: followed(target) == expected, "it goes on when it is resumed", within_s=30)

    target.run("mirror", "link", "promote", "west", "--yes")
    source.run("topic", "create", "left.late")
    assert refresh(target)["changed_topics"] == []
    target.run("mirror", "link", "delete", "west", "--yes")


def test_groups_have_the_offsets_of_the_source_and_none_goes_back(source: Ottla, target: Ottla) -> None:
    source.run("topic", "create", "read", "other")
    write(source, "read", 100)
    link(source, target, "read", *EVERY_SECOND, "--set", "groups.exclude=private-.*", "--wait")
    for group in ("billing", "private-1"):
        commit(source, group, "read", 40)
    commit(source, "billing", "other", 0)
    eventually(lambda: committed(target, "billing", "read") == 40, "the group has its offset", within_s=60)

    # Back at the source, as a late request would be: consumers here may have gone on meanwhile.
    commit(target, "billing", "read", 60)
    refresh(target)
    assert committed(target, "billing", "read") == 60
    assert committed(target, "private-1", "read") < 0

    commit(source, "billing", "read", 100)
    refresh(target)
    assert committed(target, "billing", "read") == 100

    # What is not here is not skipped.
    target.run("mirror", "link", "pause", "west")
    target.run("mirror", "link", "promote", "west", "read", "--yes")
    write(source, "read", 50)
    commit(source, "billing", "read", 150)
    target.run("mirror", "link", "resume", "west")
    refresh(target)
    assert committed(target, "billing", "read") == 100


def test_a_group_that_is_used_here_keeps_its_offsets(source: Ottla, target: Ottla) -> None:
    source.run("topic", "create", "used")
    write(source, "used", 50)
    link(source, target, "used", *SELDOM, "--wait")
    consumer = Consumer(
        {"bootstrap.servers": bootstrap(target), "group.id": "using", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["used"])
    eventually(lambda: consumer.poll(1.0) is not None, "the group is used", within_s=60)
    commit(source, "using", "used", 50)
    assert ("GROUP_IN_USE", "using") in problems(refresh(target))
    consumer.close()
    assert committed(target, "using", "used") < 50
    refresh(target)
    assert committed(target, "using", "used") == 50


def test_another_broker_keeps_the_link_when_its_keeper_is_gone(source: Ottla, tmp_path: Path) -> None:
    source.run("topic", "create", "moved")
    with OttlaCluster(tmp_path / "target", brokers=3) as cluster:
        target = Ottla(cluster.bootstrap)
        link(source, target, "moved.*", *EVERY_SECOND)
        keeper = refresh(target)["broker"]
        brokers = [each for each in cluster.services if each.role == "broker"]
        (broker,) = [each for each in brokers if each.id == keeper]
        target = Ottla(next(f"127.0.0.1:{each.port}" for each in brokers if each is not broker))
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            # A new topic would need all three brokers.
            source.run("config", "set", "topic", "moved", "segment.bytes=3000000")
            eventually(lambda: own(target, "moved") == own(source, "moved"), "another keeps the link", within_s=60)
            assert refresh(target)["broker"] != keeper
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        eventually(lambda: refresh(target)["broker"] == keeper, "the former keeper has it back", within_s=60)
        source.run("topic", "create", "moved.later")
        eventually(lambda: "moved.later" in followed(target), "it goes on", within_s=60)


def test_a_source_that_does_not_answer_is_named_in_the_status(tmp_path: Path, target: Ottla) -> None:
    with OttlaCluster(tmp_path / "other") as other:
        source = Ottla(other.bootstrap)
        source.run("topic", "create", "lost")
        link(source, target, "lost", *EVERY_SECOND, "--wait")
    found = refresh(target, fails_with=1)
    assert "topics: " in found["failure"]
    assert "groups: " in found["failure"]
    assert "not in step" in target.run("mirror", "link", "status", "west", fails_with=1).stdout.decode()
