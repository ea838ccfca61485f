"""A local cluster of three brokers that loses its etcd: what its clients were told before, and the commands."""

import itertools
import json
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.eventually import eventually

PARTITIONS = 3
TIMEOUT_S = 60.0


def run_ottla(*arguments: str, succeeds: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs the command and returns what it wrote."""
    done = subprocess.run([ottla_command(), *arguments], capture_output=True, text=True, check=False)
    if succeeds:
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done


def recover(cluster: OttlaCluster, *arguments: str) -> Any:
    """Recovers a local cluster; returns the plan."""
    done = run_ottla("cluster", "recover", "local", "--dir", str(cluster.directory), "--yes", "--json", *arguments)
    return json.loads(done.stdout)


def lose_etcd(cluster: OttlaCluster) -> None:
    """Deletes everything that etcd had."""
    shutil.rmtree(cluster.directory / "etcd")


def create_topic(bootstrap: str, name: str, configs: dict[str, str], partitions: int = PARTITIONS) -> None:
    """Creates a topic with a replica on each of three brokers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3, config=configs)])[name].result(TIMEOUT_S)


def topic_ids(bootstrap: str, topics: Sequence[str]) -> dict[str, str]:
    """The topics' ids."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_S)
    return {name: str(each.result(TIMEOUT_S).topic_id) for name, each in found.items()}


def settings(bootstrap: str, topic: str) -> dict[str, str]:
    """The settings that a topic has of its own."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # which ends its requests when it goes
    found = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: str(entry.value) for name, entry in found.items() if entry.source == 1}


def in_sync(bootstrap: str, topic: str) -> dict[int, set[int]]:
    """The in-sync replicas by partition."""
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=TIMEOUT_S)
    return {index: set(each.isrs) for index, each in metadata.topics[topic].partitions.items()}


def wait_until_in_sync(bootstrap: str, topics: Sequence[str]) -> None:
    """Waits until each partition of the topics has three replicas in sync."""

    def everybody() -> bool:
        return all(len(isr) == 3 for topic in topics for isr in in_sync(bootstrap, topic).values())

    eventually(everybody, "all replicas are in sync", within_s=TIMEOUT_S)


def write_one(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Has a new idempotent producer write a record; returns its offset as acknowledged."""
    outcome: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    producer.produce(topic, b"x", partition=partition, on_delivery=lambda error, got: outcome.append((error, got)))
    assert producer.flush(TIMEOUT_S) == 0
    ((error, message),) = outcome
    assert error is None, error
    return int(message.offset())


def end_offset(bootstrap: str, topic: str, partition: int = 0) -> int:
    """The offset after the last record that consumers see."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used", "log_level": 0})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)[1])
    finally:
        consumer.close()


class CommittingGroups:
    """Groups that commit ever higher offsets, each by a thread that notes what was granted.

    Attributes:
        granted: by group, the highest offset whose commit succeeded.
        asked: by group, the highest offset of which a commit was tried.
    """

    def __init__(self, bootstrap: str, topic: str, groups: Sequence[str]) -> None:
        self.granted = dict.fromkeys(groups, 0)
        self.asked = dict.fromkeys(groups, 0)
        self._bootstrap = bootstrap
        self._topic = topic
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._commit, args=(group,), daemon=True) for group in groups]

    def check(self, granted: dict[str, int]) -> None:
        """Sees that what each group has committed is at least what was granted, and not beyond what was asked."""
        for group, offset in granted.items():
            found = self._committed(group)
            assert offset <= found <= self.asked[group], f"{group}: {found}, and {offset} was granted"

    def _committed(self, group: str) -> int:
        consumer = self._consumer(group)

        def committed() -> int | None:
            try:
                (found,) = consumer.committed([TopicPartition(self._topic, 0)], timeout=TIMEOUT_S)
            except KafkaException:
                return None
            return max(int(found.offset), 0) + 1

        try:
            return eventually(committed, f"the offset of {group} is told", within_s=TIMEOUT_S) - 1
        finally:
            consumer.close()

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "log_level": 0,
                "reconnect.backoff.max.ms": 200,
            }
        )

    def _commit(self, group: str) -> None:
        consumer = self._consumer(group)
        try:
            for offset in itertools.count(1):
                if self._ending.is_set():
                    return
                self.asked[group] = offset
                try:
                    (outcome,) = consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)
                except KafkaException:
                    self._ending.wait(0.1)
                    continue
                if outcome.error is None:
                    self.granted[group] = offset
        finally:
            consumer.close()

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)


def broker_directory(cluster: OttlaCluster, broker: int) -> Path:
    """The log directory of a broker."""
    return cluster.directory / f"broker-{broker}"
