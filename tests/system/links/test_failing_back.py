"""Failing over to the cluster that follows and back: what only one side has is promoted, or set aside and shown."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from ottla_core.client.links import follow_existing_topics
from ottla_core.cluster.controller_rpc.link_api import NewLinkedTopic
from ottla_core.random_ids import random_uuid
from tests.support.clients.steady_writer import read_values
from tests.support.clusters.linked_clusters import LinkClient, Target, topic_in
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.messages.record_batches import read_values as values_in

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


def test_consumers_skip_nothing_that_comes_at_offsets_which_they_have_passed(tmp_path: Path) -> None:
    """One group has stopped behind the cut, another reads on; a third consumer is in no group but compares."""
    with (
        OttlaCluster(tmp_path / "first", brokers=2) as first,
        ReplicatedCluster(tmp_path / "second", brokers=1) as second,
        ExitStack() as closing,
    ):
        there = Target(second, first.bootstrap)
        there.create_link()
        make_topic(first, "orders")
        write(first.bootstrap, "orders", "both", COUNT)
        there.follow("orders")
        there.wait_for_end("orders", COUNT)
        there.promote("orders")
        write(second.bootstrap, "orders", "second", COUNT)
        write(first.bootstrap, "orders", "first", COUNT // 2)

        tail = COUNT + COUNT // 2
        stopped = consumer(first, "stopped")
        stopped.subscribe(["orders"])
        read_until(stopped, f"first {COUNT // 2 - 1}")
        stopped.commit(asynchronous=False)
        stopped.close()
        running, alone = consumer(first, "running"), consumer(first, "alone")
        closing.callback(running.close)
        closing.callback(alone.close)
        running.subscribe(["orders"])
        alone.assign([TopicPartition("orders", 0, tail - 10)])
        for each in (running, alone):
            read_until(each, f"first {COUNT // 2 - 1}")
        running.commit(offsets=[TopicPartition("orders", 0, COUNT - 10)], asynchronous=False)  # its position is ahead

        back = Former(first, second.bootstrap)
        back.create_link()
        follow_existing(back, "orders")
        back.wait_for_end("orders", 2 * COUNT)
        expected = [f"second {number}" for number in range(COUNT)]
        last = expected[-1]
        for each in (running, alone):
            values = [value for value in read_until(each, last) if value.startswith("second")]
            assert list(dict.fromkeys(values)) == expected  # who joins anew may read some again
        again = consumer(first, "stopped")
        closing.callback(again.close)
        again.subscribe(["orders"])
        assert read_until(again, last) == expected


class Former(LinkClient):
    """The former source, with coordinators of groups."""

    def __init__(self, cluster: OttlaCluster, source: str) -> None:
        super().__init__(source)
        self.cluster = cluster

    def addresses(self) -> Sequence[str]:
        return self.cluster.bootstrap.split(",")


def make_topic(cluster: OttlaCluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 2)])[name].result(60)


def consumer(cluster: OttlaCluster, group: str) -> Consumer:
    """A consumer that would skip what it does not know of: it goes to the end where it has no position."""
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest" if group != "alone" else "latest",
        }
    )


def read_until(reader: Consumer, last: str) -> list[str]:
    """What it reads up to a value."""
    values: list[str] = []

    def reached() -> list[str]:
        message = reader.poll(1.0)
        if message is not None and message.error() is None:
            values.append((message.value() or b"").decode())
        if not values or values[-1] != last:
            raise ConnectionError(f"the last of {len(values)} is {values[-1:]}")
        return values

    return eventually(reached, f"{last} is read", within_s=90)


def follow_existing(target: LinkClient, name: str) -> None:
    _, topic = topic_in(target.seen_at, name)
    new = NewLinkedTopic(
        name=name,
        topic_id=random_uuid(),
        source_topic=name,
        source_topic_id=UUID(str(topic.topic_id)),
        source_leader_epochs=tuple(each.leader_epoch for each in topic.partitions),
    )
    (result,) = target.ask(follow_existing_topics("west", [new]))
    assert result.error_code is ErrorCode.none, result.error_message
