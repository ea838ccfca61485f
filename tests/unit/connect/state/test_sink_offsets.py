"""The offsets of a consumer group, read and changed in a real cluster."""

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientTopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla_connect.config import WorkerConfig
from ottla_connect.state.sink_offsets import SinkOffsets, SinkOffsetsError
from ottla_sdk import TopicPartition
from tests.support.eventually import eventually
from tests.support.free_ports import free_port_block
from tests.support.ottla_cluster import OttlaCluster

pytestmark = pytest.mark.slow

P0, P1, P2 = (TopicPartition("sunk", number) for number in range(3))


@pytest.fixture(scope="module", autouse=True)
def topic(cluster: OttlaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("sunk", 3, 1)])["sunk"].result()


def offsets_of(cluster: OttlaCluster, group: str) -> SinkOffsets:
    return SinkOffsets(WorkerConfig.parse({"bootstrap.servers": cluster.bootstrap}), group, {})


async def test_offsets_are_set_removed_and_deleted(cluster: OttlaCluster) -> None:
    offsets = offsets_of(cluster, "connect-a")
    assert await offsets.read() == {}
    await offsets.alter({P0: 5, P1: 7})
    assert await offsets.read() == {P0: 5, P1: 7}
    await offsets.alter({P0: None, P1: 8, P2: 1})
    assert await offsets.read() == {P1: 8, P2: 1}
    await offsets.alter({P0: None})
    await offsets.delete()
    assert await offsets.read() == {}
    await offsets.delete()
    await offsets.alter({P0: None})


async def test_nothing_changes_while_the_group_has_members(cluster: OttlaCluster) -> None:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "connect-b", "auto.offset.reset": "latest"}
    )
    consumer.subscribe(["sunk"])
    try:
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the member has its partitions")
        consumer.commit(offsets=[ClientTopicPartition("sunk", 0, 3)], asynchronous=False)
        offsets = offsets_of(cluster, "connect-b")
        for change in (offsets.alter({P0: 1}), offsets.alter({P0: None}), offsets.delete()):
            with pytest.raises(SinkOffsetsError, match="still has members"):
                await change
        assert await offsets.read() == {P0: 3}
    finally:
        consumer.close()


async def test_a_cluster_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla_connect.state.sink_offsets.REQUEST_TIMEOUT_S", 1.0)
    config = WorkerConfig.parse({"bootstrap.servers": f"127.0.0.1:{free_port_block(1)}"})
    offsets = SinkOffsets(config, "connect-a", {})
    with pytest.raises(SinkOffsetsError, match="connect-a"):
        await offsets.read()
    with pytest.raises(SinkOffsetsError, match=r"127\.0\.0\.1"):
        await offsets.alter({P0: None})
