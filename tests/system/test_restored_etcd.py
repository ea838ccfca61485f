"""etcd is put back to an older snapshot: what the logs have seen meanwhile is not counted anew.

Without floors from the logs a new producer gets an id that has been used, and its first batch is taken for one that
is stored already; and shards get producer epochs that the log has seen, so that it refuses their owner for ever.
"""

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.clusters.broker_under_test import group_arguments, make_topic
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

RUNS_AFTER_THE_SNAPSHOT = 3
GROUP = "readers"
TIMEOUT_S = 30.0


def test_nothing_is_lost_when_etcd_is_put_back(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    etcd, snapshot = directory / "etcd", tmp_path / "snapshot"
    with OttlaCluster(directory, arguments=group_arguments()) as cluster:
        topic = make_topic(cluster.bootstrap, partitions=1)
        write(cluster, topic)
        commit(cluster, topic, 1)
        cluster.stop()
        shutil.copytree(etcd, snapshot)
        for run in range(RUNS_AFTER_THE_SNAPSHOT):
            cluster.start()
            write(cluster, topic)
            commit(cluster, topic, 2 + run)
            cluster.stop()
        shutil.rmtree(etcd)
        shutil.copytree(snapshot, etcd)

        cluster.start()
        for run in range(2):
            write(cluster, topic)
            assert end_offset(cluster, topic) == 2 + RUNS_AFTER_THE_SNAPSHOT + run, "what was acknowledged is stored"
        assert committed(cluster, topic) == 1 + RUNS_AFTER_THE_SNAPSHOT
        commit(cluster, topic, 6)
        assert committed(cluster, topic) == 6


def write(cluster: OttlaCluster, topic: str) -> None:
    """One record of a new idempotent producer, acknowledged."""
    problems: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    producer.produce(topic, b"record", partition=0, on_delivery=lambda error, _: problems.append(error))
    producer.flush(TIMEOUT_S)
    assert problems == [None]


def reader(cluster: OttlaCluster) -> Consumer:
    return Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "enable.auto.commit": False})


def end_offset(cluster: OttlaCluster, topic: str) -> int:
    consumer = reader(cluster)
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)[1])
    finally:
        consumer.close()


def commit(cluster: OttlaCluster, topic: str, offset: int) -> None:
    consumer = reader(cluster)

    def is_committed() -> bool:
        try:
            (outcome,) = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                return False
            raise
        return outcome.error is None

    try:
        eventually(is_committed, f"{offset} is committed", within_s=TIMEOUT_S)
    finally:
        consumer.close()


def committed(cluster: OttlaCluster, topic: str) -> int:
    consumer = reader(cluster)
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)[0].offset)
    finally:
        consumer.close()
