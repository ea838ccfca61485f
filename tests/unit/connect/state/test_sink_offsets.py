"""The offsets of a consumer group, read and changed in a real cluster."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientTopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla_connect.config import WorkerConfig
from ottla_connect.state.sink_offsets import SinkOffsets, SinkOffsetsError
from ottla_sdk import TopicPartition
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.free_ports import free_port_block

pytestmark = pytest.mark.slow

P0, P1, P2 = (TopicPartition("sunk", number) for number in range(3))


@pytest.fixture(scope="module", autouse=True)
def topic(cluster: OttlaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("sunk", 3, 1)])["sunk"].result()


def offsets_of(cluster: OttlaCluster, group: str, permit: Callable[[], object] = lambda: None) -> SinkOffsets:
    config = WorkerConfig.parse({"bootstrap.servers": cluster.bootstrap})
    return SinkOffsets(config, group, {}, permit)


class Forbidden(Exception):
    """Another worker leads."""


def permits(count: int) -> Callable[[], None]:
    """Permits so many requests."""
    left = iter(range(count))

    def permit() -> None:
        if next(left, None) is None:
            raise Forbidden

    return permit


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


async def test_whether_a_change_is_permitted_is_asked_before_each_request(cluster: OttlaCluster) -> None:
    await offsets_of(cluster, "connect-c").alter({P0: 5, P1: 7})
    with pytest.raises(Forbidden):
        await offsets_of(cluster, "connect-c", permits(1)).alter({P0: 6, P1: None})
    assert await offsets_of(cluster, "connect-c", permits(0)).read() == {P0: 6, P1: 7}
    for change in ({P0: 8}, {P0: None}):
        with pytest.raises(Forbidden):
            await offsets_of(cluster, "connect-c", permits(0)).alter(change)
    with pytest.raises(Forbidden):
        await offsets_of(cluster, "connect-c", permits(0)).delete()
    assert await offsets_of(cluster, "connect-c").read() == {P0: 6, P1: 7}


async def test_whether_a_change_is_permitted_is_asked_again_before_it_is_repeated(
    cluster: OttlaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There is no such group, as if its coordinator were about to change.
    passing = frozenset({KafkaError.GROUP_ID_NOT_FOUND})
    monkeypatch.setattr("ottla_connect.state.sink_offsets.PASSING_CODES", passing)
    with pytest.raises(Forbidden):
        await offsets_of(cluster, "connect-d", permits(1)).alter({P0: None})
    with pytest.raises(Forbidden):
        await offsets_of(cluster, "connect-d", permits(1)).delete()


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
