"""Failing over to the cluster that follows and back: what only one side has is promoted, or set aside and shown."""

from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from ottla_core.client.links import follow_existing_topics
from ottla_core.cluster.link_api import NewLinkedTopic
from tests.support.linked_clusters import Target, topic_in
from tests.support.record_batches import read_values as values_in
from tests.support.replicated_cluster import ReplicatedCluster
from tests.support.steady_writer import read_values

pytestmark = pytest.mark.slow

COUNT = 300


def write(bootstrap: str, topic: str, what: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, value=f"{what} {number}", partition=0)
    assert producer.flush(60) == 0


def set_aside(cluster: ReplicatedCluster) -> dict[Path, list[bytes]]:
    """The files that brokers have set records aside in, with the values of those."""
    return {
        path: [value for _, value in values_in(path.read_bytes())]
        for broker in cluster.brokers.values()
        for path in broker.data.glob("set-aside-*.log")
    }


def test_the_former_source_follows_after_its_own_tail_was_set_aside(tmp_path: Path) -> None:
    with (
        ReplicatedCluster(tmp_path / "first", brokers=2) as first,
        ReplicatedCluster(tmp_path / "second", brokers=2) as second,
    ):
        there = Target(second, first.bootstrap)
        there.create_link()
        first.create_topic("orders")
        write(first.bootstrap, "orders", "both", COUNT)
        there.follow("orders", replication_factor=2)
        there.wait_for_end("orders", COUNT)
        there.promote("orders")
        write(second.bootstrap, "orders", "second", COUNT)
        write(first.bootstrap, "orders", "first", COUNT // 2)  # acknowledged there, and never copied

        back = Target(first, second.bootstrap)
        back.create_link()
        follow_existing(back, "orders")
        back.wait_for_end("orders", 2 * COUNT)
        assert first.wait_for_equal_logs("orders") == second.wait_for_equal_logs("orders")
        kept = set_aside(first)
        assert list(kept.values()) == [[f"first {number}".encode() for number in range(COUNT // 2)]]
        expected = [f"{what} {number}".encode() for what in ("both", "second") for number in range(COUNT)]
        assert [value for _, value in read_values(first.bootstrap, "orders", up_to=2 * COUNT)] == expected

        back.promote("orders")
        write(first.bootstrap, "orders", "again", COUNT)
        last = [f"again {number}".encode() for number in range(COUNT)]
        assert [value for _, value in read_values(first.bootstrap, "orders", up_to=3 * COUNT)] == expected + last
        assert len(set_aside(first)) == 1


def follow_existing(target: Target, name: str) -> None:
    _, topic = topic_in(target.seen_at, name)
    new = NewLinkedTopic(
        name=name,
        source_topic=name,
        source_topic_id=UUID(str(topic.topic_id)),
        source_leader_epochs=tuple(each.leader_epoch for each in topic.partitions),
    )
    (result,) = target.ask(follow_existing_topics("west", [new]))
    assert result.error_code is ErrorCode.none, result.error_message
