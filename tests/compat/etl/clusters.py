"""Three brokers whose deaths an ETL goes through: Ottla's, and Apache Kafka's for comparison.

Both keep three replicas of everything, ask for two in sync, and miss a dead broker after `MISSED_AFTER_MS`. In Kafka
each node is a controller and coordinates groups as well, so a broker's death ends those too; Ottla's group
coordinators are processes of their own, of which one may be killed together with each broker.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.etl.worker_program import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from tests.support.clients.raw_client import answers_api_versions
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.clusters.service_process import GroupCoordinatorProcess
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK
from tests.support.reference.reference_kafka import ReferenceKafkaCluster

BROKERS = 3
COORDINATORS = 2
MISSED_AFTER_MS = 3000
IN_SYNC_DEADLINE_S = 120.0
ADMIN_DEADLINE_S = 60.0
QUERY_DEADLINE_S = 10.0
SETTINGS = {"offsets.topic.num.partitions": "6", "min.insync.replicas": "2"}
GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "1000",
    # As the workers have them in the classic protocol, where they are the client's to choose.
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
}
TOPIC_CONFIG = {"min.insync.replicas": "2", "retention.ms": "-1"}
KAFKA_SETTINGS = {
    **SETTINGS,
    "offsets.topic.replication.factor": "3",
    "broker.session.timeout.ms": str(MISSED_AFTER_MS),
    "broker.heartbeat.interval.ms": "500",
    **GROUP_SETTINGS,
}
LEASE = {"member.lease.ttl.ms": str(MISSED_AFTER_MS)}


class Cluster(Protocol):
    """What the ETL needs of a cluster."""

    name: str

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""

    def kill(self, turn: int) -> None:
        """SIGKILL to the broker whose turn it is."""

    def begin_again(self, turn: int) -> None:
        """Starts it again, and does not wait until it is ready."""

    def wait_until_whole(self) -> None:
        """Waits until every broker answers and every partition has all its replicas in sync."""


class OttlaBrokers:
    """Ottla's brokers, with two group coordinators.

    Args:
        directory: where everything is kept.
        coordinators_too: kill and start a coordinator with each broker.
    """

    def __init__(self, directory: Path, *, coordinators_too: bool):
        self.name = "ottla with coordinators" if coordinators_too else "ottla"
        self.services = ReplicatedCluster(
            directory,
            brokers=BROKERS,
            broker_settings={**SETTINGS, **LEASE},
            controller_settings={"min.insync.replicas": SETTINGS["min.insync.replicas"], **LEASE},
        )
        self.coordinators = [
            GroupCoordinatorProcess(
                directory / f"group-coordinator-{number}",
                self.services.etcd,
                number=number,
                settings={**GROUP_SETTINGS, **LEASE},
            )
            for number in range(1, COORDINATORS + 1)
        ]
        self._coordinators_too = coordinators_too

    @property
    def bootstrap(self) -> str:
        return self.services.bootstrap

    def kill(self, turn: int) -> None:
        self.services.brokers[1 + turn % BROKERS].kill()
        if self._coordinators_too:
            self.coordinators[turn % COORDINATORS].kill()

    def begin_again(self, turn: int) -> None:
        self.services.brokers[1 + turn % BROKERS].process.start()
        if self._coordinators_too:
            self.coordinators[turn % COORDINATORS].start()

    def wait_until_whole(self) -> None:
        for broker in self.services.brokers.values():
            eventually(broker.is_ready, f"{broker.bootstrap} answers", within_s=IN_SYNC_DEADLINE_S)
        wait_until_in_sync(self.bootstrap)


class KafkaBrokers:
    """Kafka's, each broker and controller."""

    def __init__(self, directory: Path):
        self.name = "kafka"
        self.nodes = ReferenceKafkaCluster(directory, nodes=BROKERS, settings=KAFKA_SETTINGS)

    @property
    def bootstrap(self) -> str:
        return self.nodes.bootstrap

    def kill(self, turn: int) -> None:
        self.nodes.nodes[1 + turn % BROKERS].kill()

    def begin_again(self, turn: int) -> None:
        self.nodes.nodes[1 + turn % BROKERS].begin()

    def wait_until_whole(self) -> None:
        for node in self.nodes.nodes.values():
            eventually(
                lambda port=node.port: answers_api_versions(LOOPBACK, port),
                f"{node.bootstrap} answers",
                within_s=IN_SYNC_DEADLINE_S,
            )
        wait_until_in_sync(self.bootstrap)


@contextmanager
def running_ottla(directory: Path, *, coordinators_too: bool = False) -> Iterator[OttlaBrokers]:
    """Ottla, started afresh."""
    cluster = OttlaBrokers(directory, coordinators_too=coordinators_too)
    with cluster.services:
        try:
            for coordinator in cluster.coordinators:
                coordinator.start()
            cluster.wait_until_whole()
            yield cluster
        finally:
            for coordinator in cluster.coordinators:
                coordinator.kill()


@contextmanager
def running_kafka(directory: Path) -> Iterator[KafkaBrokers]:
    """Kafka, started afresh."""
    cluster = KafkaBrokers(directory)
    with cluster.nodes:
        cluster.wait_until_whole()
        yield cluster


def make_topics(bootstrap: str, names: list[str], partitions: int) -> None:
    """Creates topics with a replica on each broker, and waits until these are in sync."""
    topics = [
        NewTopic(name, num_partitions=partitions, replication_factor=BROKERS, config=TOPIC_CONFIG) for name in names
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics(topics).values():
        created.result(ADMIN_DEADLINE_S)
    wait_until_in_sync(bootstrap)


def wait_until_in_sync(bootstrap: str) -> None:
    """Waits until every partition of every topic has a leader and all its replicas in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def is_in_sync() -> bool:
        try:
            metadata = admin.list_topics(timeout=QUERY_DEADLINE_S)
        except KafkaException:
            return False
        partitions = [each for topic in metadata.topics.values() for each in topic.partitions.values()]
        return len(metadata.brokers) == BROKERS and all(
            each.leader >= 0 and len(each.isrs) == BROKERS for each in partitions
        )

    eventually(is_in_sync, "every partition has all its replicas in sync", within_s=IN_SYNC_DEADLINE_S)
