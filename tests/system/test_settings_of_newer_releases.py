"""Settings that only a newer release knows: who does not know them starts, serves, and lets them be taken back."""

import json
import os
import subprocess
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.support.clusters.broker_under_test import group_arguments, make_topic
from tests.support.clusters.etcd_process import etcd_program
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

TIMEOUT_S = 30.0
UNKNOWN = {"of.a.newer.release": "1"}


def etcdctl(cluster: OttlaCluster, *arguments: str) -> str:
    (endpoint,) = json.loads((cluster.directory / "cluster.json").read_text())["etcd"]
    return subprocess.run(
        [etcd_program("etcdctl"), f"--endpoints={endpoint}", *arguments], capture_output=True, text=True, check=True,
        env={**os.environ, "ETCDCTL_API": "3"},
    ).stdout  # fmt: skip


def set_in_etcd(cluster: OttlaCluster, topic: str) -> None:
    """Gives a topic, all brokers and a group the setting, as a controller of a newer release would."""
    (key,) = (each for each in etcdctl(cluster, "get", "--prefix", "/ottla/", "--keys-only").split() if topic in each)
    stored = json.loads(etcdctl(cluster, "get", "--print-value-only", key))
    etcdctl(cluster, "put", key, json.dumps({**stored, "configs": {**stored["configs"], **UNKNOWN}}))
    prefix = key.partition("topics/")[0]
    for others in ("configs/brokers/default", "configs/groups/readers"):
        etcdctl(cluster, "put", prefix + others, json.dumps({"configs": UNKNOWN}))


def write(cluster: OttlaCluster, topic: str) -> None:
    problems: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(topic, b"record", partition=0, on_delivery=lambda error, _: problems.append(error))
    producer.flush(TIMEOUT_S)
    assert problems == [None]


def alter(cluster: OttlaCluster, topic: str, operation: AlterConfigOpType, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(TIMEOUT_S)


def is_known_of(cluster: OttlaCluster) -> bool:
    """Whether the broker has seen the settings, of which it warns."""
    log = (cluster.directory / "logs/broker-1.log").read_text()
    return "settings of a topic are unknown to this release" in log and "of.a.newer.release" in log


def test_a_process_that_does_not_know_a_setting_serves_and_starts(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path / "cluster", arguments=group_arguments()) as cluster:
        topic = make_topic(cluster.bootstrap, partitions=1)
        write(cluster, topic)
        set_in_etcd(cluster, topic)
        eventually(lambda: is_known_of(cluster), "the broker warns", within_s=TIMEOUT_S)
        write(cluster, topic)
        cluster.stop()
        cluster.start()
        write(cluster, topic)
        alter(cluster, topic, AlterConfigOpType.DELETE, *next(iter(UNKNOWN.items())))
        alter(cluster, topic, AlterConfigOpType.SET, "retention.ms", "3600000")
        write(cluster, topic)
