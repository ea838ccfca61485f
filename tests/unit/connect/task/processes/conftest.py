"""One broker for all tests here, and what they need to fill and read topics and to run tasks."""

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla_connect.processes.messages import Message, RunConnector, RunTask
from tests.support.clients.committed_offsets import commit_offsets
from tests.support.clusters.broker_under_test import group_arguments
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.connect.connect_process import ConnectProcess
from tests.support.eventually import eventually

numbers = itertools.count()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OttlaCluster(tmp_path_factory.mktemp("task") / "cluster", arguments=group_arguments()) as cluster:
        yield cluster.bootstrap


class Kafka:
    """The brokers, as a test sees them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def topic(self, partitions: int = 1) -> str:
        name = f"t{next(numbers)}-{time.time_ns():x}"
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        eventually(
            lambda: len(self.admin.list_topics(name, timeout=10).topics[name].partitions) == partitions,
            "the topic is known",
        )
        return name

    def create_anew(self, topic: str) -> None:
        """Delete a topic and create another one of the same name."""
        self.admin.delete_topics([topic])[topic].result(30)
        eventually(lambda: topic not in self.admin.list_topics(timeout=10).topics, "the topic is gone")
        self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        eventually(lambda: topic in self.admin.list_topics(timeout=10).topics, "the topic is known")

    def publish(self, topic: str, *values: bytes | Mapping[str, Any], partition: int = -1, **more: Any) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            producer.produce(topic, data, partition=partition, **more)
        assert producer.flush(30) == 0

    def read(self, topic: str) -> list[KafkaMessage]:
        """Return everything that a topic has."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test", "enable.auto.commit": False})
        try:
            partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            ends = {
                each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=10)[1]
                for each in partitions
            }
            consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
            found: list[KafkaMessage] = []
            deadline = time.monotonic() + 30
            while len(found) < sum(ends.values()) and time.monotonic() < deadline:
                if (message := consumer.poll(0.2)) is not None and message.error() is None:
                    found.append(message)
            return found
        finally:
            consumer.close()

    def values(self, topic: str) -> list[Any]:
        return [json.loads(each.value() or b"null") for each in self.read(topic)]

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        found = self._last_commit(group, topic, partition)
        return found.offset if found.offset >= 0 else None

    def committed_metadata(self, group: str, topic: str) -> str:
        return self._last_commit(group, topic, 0).metadata or ""

    def commit(self, group: str, topic: str, offset: int, metadata: str) -> None:
        """Commit an offset as a member without a generation would."""
        commit_offsets(self.bootstrap, group, [TopicPartition(topic, 0, offset, metadata)])

    def _last_commit(self, group: str, topic: str, partition: int) -> TopicPartition:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=10)
            return found
        finally:
            consumer.close()


@pytest.fixture(scope="session")
def kafka(bootstrap: str) -> Kafka:
    return Kafka(bootstrap)


class Collected:
    """What a `CollectingSink` has written down."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all_events(self) -> list[dict[str, Any]]:
        text = self.path.read_text() if self.path.exists() else ""
        whole, _, _ = text.rpartition("\n")  # the rest is still being written
        return [json.loads(line) for line in whole.splitlines()]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.all_events() if event["event"] == kind]

    def values(self) -> list[Any]:
        return [each["value"] for each in self.events("record")]

    def until(self, count: int) -> list[Any]:
        eventually(lambda: len(self.values()) >= count, f"{count} records are in the sink")
        return self.values()


class Connect:
    """Starts processes, and ends them with the test."""

    def __init__(self, bootstrap: str, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self.collected = Collected(directory / "collected")
        self.worker = {
            "bootstrap.servers": bootstrap,
            "key.converter": "StringConverter",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
            "offset.flush.interval.ms": "100",
        }
        self._stack = stack

    def connector(self, **settings: str) -> ConnectProcess:
        written = {"name": self.name(), **_dotted(settings)}
        return self.run(RunConnector(connector=written["name"], settings=written, worker=self.worker))

    def source(self, topic: str, **options: Any) -> ConnectProcess:
        return self._task({"connector.class": "ListSource", "topic": topic, "list.task": "0"}, options)

    def sink(self, **options: Any) -> ConnectProcess:
        return self._task({"connector.class": "CollectingSink", "collect.path": str(self.collected.path)}, options)

    def name(self) -> str:
        return f"c{next(numbers)}-{time.time_ns():x}"

    def _task(self, settings: dict[str, str], options: dict[str, Any]) -> ConnectProcess:
        how = {key: options.pop(key) for key in ("lease", "offsets") if key in options}
        name, task = options.pop("name", None) or self.name(), options.pop("task", 0)
        paused = options.pop("paused", False)
        written = {"name": name, **settings, **_dotted(options)}
        purpose = RunTask(
            connector=name, task=task, connector_settings=written, settings=written, worker=self.worker, paused=paused
        )
        return self.run(purpose, **how)

    def run(self, purpose: Message, **how: Any) -> ConnectProcess:
        output = self.directory / f"output-{next(numbers)}"
        return self._stack.enter_context(ConnectProcess(purpose, output=output, **how))


@pytest.fixture
def connect(bootstrap: str, tmp_path: Path) -> Iterator[Connect]:
    with ExitStack() as stack:
        yield Connect(bootstrap, tmp_path, stack)


def _dotted(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings that were written as keyword arguments, by their keys."""
    return {key.replace("_", "."): str(value) for key, value in settings.items()}
