"""Mirrors with Apache Kafka at either side, and MirrorMaker 2 as the peer that says what is right."""

from collections.abc import Iterator

import pytest

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually
from tests.support.mirror.mirror_content import ALL_TOPICS, TRANSACTIONS, check_copies, fill, fill_with_transactions
from tests.support.mirror.mirror_worker import MirrorWorkerProcess
from tests.support.reference.mirror_maker import MirrorMaker
from tests.support.reference.reference_kafka import ReferenceKafka

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Kafka with everything in it."""
    with ReferenceKafka(tmp_path_factory.mktemp("kafka")) as broker:
        fill(broker.bootstrap)
        fill_with_transactions(broker.bootstrap)
        yield broker.bootstrap


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an Ottla with everything in it."""
    with OttlaCluster(tmp_path_factory.mktemp("ottla") / "cluster") as cluster:
        fill(cluster.bootstrap)
        yield cluster.bootstrap


def flow(source: str, target: str, alias: str) -> dict[str, str]:
    """A worker's settings."""
    return {
        "clusters": f"{alias},there",
        f"{alias}.bootstrap.servers": source,
        "there.bootstrap.servers": target,
        f"{alias}->there.enabled": "true",
        f"{alias}->there.topics": "content-.*",
        "replication.factor": "1",
    }


def test_from_kafka_to_ottla(kafka: str, ottla: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with MirrorWorkerProcess(tmp_path_factory.mktemp("worker"), flow(kafka, ottla, "west")):
        check_copies(kafka, ottla, "west", [*ALL_TOPICS, TRANSACTIONS])


def test_from_ottla_to_kafka(kafka: str, ottla: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with MirrorWorkerProcess(tmp_path_factory.mktemp("worker"), flow(ottla, kafka, "east")):
        check_copies(ottla, kafka, "east", ALL_TOPICS)


def test_what_mirror_maker_copies_is_equal_for_our_comparison(
    kafka: str, ottla: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("mirror-maker")
    settings = {"tasks.max": "2", "mm.consumer.isolation.level": "read_committed"}
    with MirrorMaker(directory, ("mm", kafka), ("ottla", ottla), topics="content-.*", settings=settings, heap="512m"):
        wait_for_topics(ottla, [f"mm.{each}" for each in (*ALL_TOPICS, TRANSACTIONS)])
        check_copies(kafka, ottla, "mm", [*ALL_TOPICS, TRANSACTIONS])


def wait_for_topics(cluster: str, topics: list[str]) -> None:
    """Waits until topics are there, which MirrorMaker 2 makes at its leisure."""

    def are_there() -> bool:
        return {*topics} <= {each["topic"] for each in Ottla(cluster).json("topic", "list")}

    eventually(are_there, "MirrorMaker 2 has made the topics", within_s=90)


def test_linked_topics_follow_kafka(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with OttlaCluster(tmp_path_factory.mktemp("linked") / "cluster") as cluster:
        command = Ottla(cluster.bootstrap)
        patterns = [option for topic in ALL_TOPICS for option in ("--topics", topic)]
        command.run("mirror", "link", "create", "kafka", "--source", kafka, *patterns, "--wait")
        found = command.json("mirror", "verify", *ALL_TOPICS, "--source", kafka, "--linked", "--wait", "60")
        assert {each["state"] for each in found} == {"equal"}
