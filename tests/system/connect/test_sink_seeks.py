"""Seeks of a sink task while its consumer still asks where a partition begins."""

import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla_connect.task.sink.group import Group
from ottla_sdk import TopicPartition
from ottla_sdk.kafka.hung_consumers import ConsumerWatch
from tests.support.clusters.broker_under_test import group_arguments
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

TOPIC = "orders"
GROUP = "seeks"
READ_S = 0.1
STATISTICS_MS = 100
ASKS_AGAIN_WITHIN_MS = 1500  # librdkafka does so after 500 ms


class LeaderStops:
    """Has the leader of partitions give no answers once they are assigned."""

    group: Group

    def __init__(self, leader_pid: int) -> None:
        self.leader_pid = leader_pid
        self.assigned = False

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.group.committed_metadata(partitions)
        os.kill(self.leader_pid, signal.SIGSTOP)
        self.assigned = True
        return {}

    def on_revoked(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        pass

    def must_pause(self, partition: TopicPartition) -> bool:
        return False


class LeaderGoesOn(Consumer):
    """Has the leader give answers again when a seek is taken."""

    leader_pid = 0

    def seek(self, place: KafkaTopicPartition) -> None:
        super().seek(place)
        os.kill(self.leader_pid, signal.SIGCONT)


def coordinator_of(client: AdminClient, group: str) -> int | None:
    try:
        node = client.describe_consumer_groups([group])[group].result().coordinator
    except KafkaException:
        return None
    assert isinstance(node.id, int)
    return node.id


def fetch_state(statistics: list[str], partition: int) -> str | None:
    """Return what the consumer does in a partition, by what it has said last; None while it does not know it."""
    topics = json.loads(statistics[-1])["topics"] if statistics else {}
    state = topics.get(TOPIC, {}).get("partitions", {}).get(str(partition), {}).get("fetch_state")
    return None if state is None else str(state)


def test_a_seek_counts_though_the_consumer_hears_later_where_the_partition_begins(tmp_path: Path):
    with ExitStack() as stack:
        cluster = stack.enter_context(OttlaCluster(tmp_path / "cluster", brokers=2, arguments=group_arguments()))
        client = AdminClient({"bootstrap.servers": cluster.bootstrap})
        client.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1)])[TOPIC].result()
        coordinator = eventually(lambda: coordinator_of(client, GROUP), "the group has a coordinator")
        leaders = client.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
        (partition,) = [number for number, each in leaders.items() if each.leader != coordinator]
        pids = {each.id: each.pid for each in cluster.recorded() if each.role == "broker"}
        leader_pid = pids[leaders[partition].leader]
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for _ in range(10):
            producer.produce(TOPIC, b"value", partition=partition)
        assert producer.flush(30) == 0
        statistics: list[str] = []
        consumer = LeaderGoesOn(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "cooperative-sticky",
                "statistics.interval.ms": STATISTICS_MS,
                "stats_cb": statistics.append,
            }
        )
        consumer.leader_pid = leader_pid
        listener = LeaderStops(leader_pid)
        group = Group(consumer, listener, incremental=True, from_start=True, watch=ConsumerWatch())
        listener.group = group
        stack.callback(group.close)
        stack.callback(os.kill, leader_pid, signal.SIGCONT)
        consumer.get_watermark_offsets(KafkaTopicPartition(TOPIC, partition), timeout=10)  # connects to the leader
        group.subscribe([TOPIC])

        def is_asking() -> bool:
            group.read(100, READ_S)
            return listener.assigned and fetch_state(statistics, partition) == "offset-wait"

        eventually(is_asking, "the consumer asks where the partition begins")
        group.seek({TopicPartition(TOPIC, partition): 3})
        read: list[int | None] = []
        statistics.clear()

        def has_read_for_long() -> bool:
            read.extend(each.offset() for each in group.read(100, READ_S) if each.error() is None)
            return 9 in read and len(statistics) * STATISTICS_MS > ASKS_AGAIN_WITHIN_MS

        eventually(has_read_for_long, "the consumer would have asked again")
        assert read == [3, 4, 5, 6, 7, 8, 9]
