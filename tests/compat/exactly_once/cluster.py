"""The cluster that exactly-once clients work against: `ottla up` with three brokers, whose processes are killed.

`ottla up` starts what has died, and gives up what dies too often within a minute: `strikes.py` leaves each process
its rest.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.exactly_once.strikes import Strikes
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

BROKERS = 3
COORDINATORS = 2
IN_SYNC_DEADLINE_S = 120.0
ADMIN_DEADLINE_S = 60.0
QUERY_DEADLINE_S = 10.0
SETTINGS = (
    "broker:offsets.topic.num.partitions=6",
    "broker:transaction.state.log.num.partitions=6",
    "broker:min.insync.replicas=2",
    "controller:min.insync.replicas=2",
    "group-coordinator:group.initial.rebalance.delay.ms=0",
)
TOPIC_CONFIG = {"min.insync.replicas": "2", "retention.ms": "-1"}


@contextmanager
def three_brokers(directory: Path) -> Iterator[OttlaCluster]:
    """A new cluster of three brokers, two group coordinators and a controller."""
    arguments = [word for setting in SETTINGS for word in ("--set", setting)]
    with OttlaCluster(directory, brokers=BROKERS, coordinators=COORDINATORS, arguments=arguments) as cluster:
        wait_until_in_sync(cluster)
        yield cluster


def strikes_at(cluster: OttlaCluster) -> Strikes:
    """What kills each process of the cluster but etcd, by its name."""
    return {
        f"{service.role} {service.id}": partial(_kill, cluster, service.role, service.id)
        for service in cluster.services
        if service.role != "etcd"
    }


def make_topics(cluster: OttlaCluster, names: Sequence[str], partitions: int) -> None:
    """Creates topics with a replica on each broker, and waits until these are in sync."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [
        NewTopic(name, num_partitions=partitions, replication_factor=BROKERS, config=TOPIC_CONFIG) for name in names
    ]
    for created in admin.create_topics(topics).values():
        created.result(ADMIN_DEADLINE_S)
    wait_until_in_sync(cluster)


def wait_until_in_sync(cluster: OttlaCluster) -> None:
    """Waits until every partition of every topic has a leader and all its replicas in sync."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

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


def _kill(cluster: OttlaCluster, role: str, number: int) -> None:
    """SIGKILL to a process, if it runs."""
    for service in cluster.recorded():
        if (service.role, service.id) == (role, number):
            with suppress(ProcessLookupError):
                os.kill(service.pid, signal.SIGKILL)
