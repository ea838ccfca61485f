"""Real controller processes on a real etcd: requests, hand-over, fencing, what failures leave behind."""

import asyncio
import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from grpc import aio
from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_rpc import controller_messages
from ottla_core.cluster.controller_rpc.controller_api import (
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    ConfigResourceType,
    NewPartitions,
    TopicReference,
)
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import NO_LEADER, ClusterState, PartitionState
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import KafkaError, NotController, RequestTimedOut, StaleBrokerEpoch
from ottla_core.rpc.channel import ChannelPool
from ottla_core.rpc.status import kafka_error
from ottla_core.rpc_identity import CONTROLLER, RpcIdentity
from ottla_proto.gen.ottla import controller_pb2 as pb
from ottla_proto.gen.ottla.controller_pb2_grpc import ControllerStub
from tests.scenarios.conftest import CLUSTER, LONG_TTL_MS, Join, MakeController, broker_member
from tests.support.child_process import ChildProcess
from tests.support.clusters.controller_process import ControllerProcess
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.controller.new_topics import new_topic

SPACE = KeySpace(CLUSTER)
ETCD_REQUEST_BYTES_MAX = 1_572_864

pytestmark = pytest.mark.slow


async def test_topics_are_created_grown_altered_and_deleted_and_read_at_once(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1, "num.partitions=3")
    for broker_id in (1, 2):
        await membership_of(broker_member(broker_id)).start()

    created, refused = await client.create_topics(
        [new_topic(name="a", replication_factor=2), new_topic(name="b", replication_factor=3)]
    )
    assert created.error_code is ErrorCode.none
    assert refused.error_code is ErrorCode.invalid_replication_factor
    topic = feed.state.topics["a"]
    assert topic.id == created.topic_id
    assert [len(p.replicas) for p in topic.partitions] == [2, 2, 2]
    brokers = feed.state.brokers
    assert all(p.leader_broker_epoch == brokers[p.leader].epoch for p in topic.partitions)
    assert "b" not in feed.state.topics

    (grown,) = await client.create_partitions([NewPartitions(topic="a", total_count=5)])
    assert grown.error_code is ErrorCode.none
    assert len(feed.state.topics["a"].partitions) == 5

    changes = (ConfigChange(name="cleanup.policy", value="compact", operation=ConfigOperation.APPEND),)
    await client.alter_configs([ConfigResourceChange(type=ConfigResourceType.TOPIC, name="a", changes=changes)])
    assert feed.state.topics["a"].configs == {"cleanup.policy": "delete,compact"}
    changes = (ConfigChange(name="log.retention.ms", value="5"),)
    for _ in range(2):
        await client.alter_configs([ConfigResourceChange(type=ConfigResourceType.BROKER, name="1", changes=changes)])
    assert feed.state.broker_configs == {1: {"log.retention.ms": "5"}}

    deleted, unknown = await client.delete_topics([TopicReference(name="a"), TopicReference(name="b")])
    assert deleted.error_code is ErrorCode.none
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    assert feed.state.topics == {}
    assert feed.orphans() == []


async def test_validate_only_changes_nothing(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    await membership_of(broker_member(1)).start()
    await client.create_topics([new_topic(name="a")])
    before = feed.state.topics
    (created,) = await client.create_topics([new_topic(name="b", partition_count=2)], validate_only=True)
    assert (created.error_code, created.partition_count) == (ErrorCode.none, 2)
    (grown,) = await client.create_partitions([NewPartitions(topic="a", total_count=2)], validate_only=True)
    assert grown.error_code is ErrorCode.none
    change = ConfigResourceChange(type=2, name="a", changes=(ConfigChange(name="retention.ms", value="1"),))
    (altered,) = await client.alter_configs([change], validate_only=True)
    assert altered.error_code is ErrorCode.none
    await client.create_topics([new_topic(name="after")])
    assert set(feed.state.topics) == {"a", "after"}
    assert feed.state.topics["a"] is before["a"]


async def test_producer_id_blocks_never_repeat_and_need_a_current_broker_epoch(
    controller: MakeController, client: ControllerClient, membership_of: Join
) -> None:
    first = controller(1)
    broker = membership_of(broker_member(1))
    await broker.start()
    blocks = await asyncio.gather(*(client.allocate_producer_ids(1, broker.epoch) for _ in range(5)))
    with pytest.raises(StaleBrokerEpoch):
        await client.allocate_producer_ids(1, broker.epoch - 1)
    first.child.kill()
    controller(2)
    blocks.append(await client.allocate_producer_ids(1, broker.epoch))
    ids = [producer_id for block in blocks for producer_id in range(block.first, block.first + block.length)]
    assert len(set(ids)) == len(ids) == 6000


async def test_a_repeated_creation_is_recognised_by_its_topic_id(
    controller: MakeController, client: ControllerClient, membership_of: Join
) -> None:
    controller(1)
    await membership_of(broker_member(1)).start()
    new = new_topic(name="a")
    assert await client.create_topics([new]) == await client.create_topics([new])
    (other,) = await client.create_topics([new_topic(name="a")])
    assert other.error_code is ErrorCode.topic_already_exists


async def test_without_a_controller_a_request_times_out_saying_so(client: ControllerClient) -> None:
    with pytest.raises(RequestTimedOut, match="no controller leads"):
        await client.create_topics([new_topic(name="a")], timeout_s=0.2)


async def test_partitions_of_a_dead_broker_get_new_leaders_or_none_and_recover(
    controller: MakeController,
    client: ControllerClient,
    feed: ClusterStateFeed,
    membership_of: Join,
) -> None:
    controller(1)
    directory_id = uuid4()
    await membership_of(broker_member(1)).start()
    mortal = membership_of(broker_member(2, directory_id=directory_id))
    await mortal.start()
    await client.create_topics(
        [
            new_topic(name="single", partition_count=4, replication_factor=1),
            new_topic(name="double", partition_count=4, replication_factor=2),
        ]
    )
    assert all(p.isr == p.replicas for p in feed.state.topics["double"].partitions)
    led_by_two = [p.index for p in feed.state.topics["single"].partitions if p.leader == 2]
    assert len(led_by_two) == 2
    await mortal.close()

    def without_two(state: ClusterState) -> bool:
        return all(2 not in (p.leader, *p.isr) for t in state.topics.values() for p in t.partitions)

    state = await feed.wait_for(without_two, 20)
    assert all(state.topics["single"].partitions[index].leader == NO_LEADER for index in led_by_two)
    offline = [state.topics["single"].partitions[index] for index in led_by_two]
    assert {(p.isr, p.eligible_leaders) for p in offline} == {((), (2,))}
    for partition in state.topics["double"].partitions:
        assert (partition.leader, partition.isr, partition.eligible_leaders) == (1, (1,), ())
        assert partition.leader_epoch == (1 if partition.replicas[0] == 2 else 0)

    back = membership_of(broker_member(2, directory_id=directory_id))
    await back.start()
    state = await feed.wait_for(
        lambda state: all(p.leader != NO_LEADER for p in state.topics["single"].partitions), 20
    )
    recovered = [state.topics["single"].partitions[index] for index in led_by_two]
    assert {(p.leader, p.leader_epoch, p.leader_broker_epoch) for p in recovered} == {(2, 2, back.epoch)}


async def test_a_broker_that_was_away_for_a_moment_is_elected_under_its_new_epoch(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    """Its key goes and comes so fast that a controller may never see it missing."""
    controller(1)
    directory_id = uuid4()
    await membership_of(broker_member(1, directory_id=directory_id)).start()
    await client.create_topics([new_topic(name="a")])
    successor = membership_of(broker_member(1, directory_id=directory_id))
    await successor.start()
    state = await feed.wait_for(
        lambda state: state.topics["a"].partitions[0].leader_broker_epoch == successor.epoch, 20
    )
    assert state.topics["a"].partitions[0].leader == 1
    assert state.topics["a"].partitions[0].leader_epoch >= 1


async def test_kill_minus_nine_of_the_leader_hands_over(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    processes = {process.id: process for process in (controller(1), controller(2))}
    await membership_of(broker_member(1)).start()
    await client.create_topics([new_topic(name="before")])
    leader = feed.state.controller
    assert leader is not None
    processes[leader.id].child.kill()
    (created,) = await client.create_topics([new_topic(name="after")])
    assert created.error_code is ErrorCode.none
    assert feed.state.controller is not None
    assert feed.state.controller.epoch > leader.epoch
    assert {"before", "after"} <= set(feed.state.topics)


async def test_a_clean_stop_hands_over_and_leaves_no_key(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    processes = {process.id: process for process in (controller(1), controller(2))}
    await membership_of(broker_member(1)).start()
    await client.create_topics([new_topic(name="before")])
    leader = feed.state.controller
    assert leader is not None
    assert processes[leader.id].child.stop() == 0
    (created,) = await client.create_topics([new_topic(name="after")])
    assert created.error_code is ErrorCode.none
    assert leader.id not in feed.state.controllers


async def test_a_paused_leader_is_deposed_and_cannot_write_when_it_wakes(
    controller: MakeController,
    client: ControllerClient,
    feed: ClusterStateFeed,
    membership_of: Join,
) -> None:
    processes = {process.id: process for process in (controller(1), controller(2))}
    await membership_of(broker_member(1)).start()
    await client.create_topics([new_topic(name="before")])
    former = feed.state.controller
    assert former is not None
    channels = ChannelPool()
    stub = ControllerStub(await channels.channel(former.rpc_address, RpcIdentity(CONTROLLER, former.id)))
    ghost = new_topic(name="ghost")
    request = pb.CreateTopicsRequest(topics=[controller_messages.NEW_TOPIC.to_message(ghost)])

    paused = processes[former.id]
    paused.pause()
    try:
        to_the_sleeper = asyncio.ensure_future(stub.CreateTopics(request, timeout=60))
        await feed.wait_for(lambda state: state.controller is not None and state.controller.epoch > former.epoch, 30)
        await client.create_topics([new_topic(name="meanwhile")])
    finally:
        paused.resume()
    with pytest.raises(aio.AioRpcError) as refused:
        await to_the_sleeper
    assert isinstance(kafka_error(refused.value), NotController)

    await feed.wait_for(lambda state: former.id in state.controllers, 30)
    await client.create_topics([new_topic(name="after")])
    assert set(feed.state.topics) == {"before", "meanwhile", "after"}
    assert feed.state.controller is not None
    assert feed.state.controller.id != former.id
    await channels.close()


async def test_half_made_topics_are_removed_at_the_beginning_of_a_term(
    controller: MakeController, etcd: EtcdClient, feed: ClusterStateFeed
) -> None:
    topic_id = uuid4()
    left = PartitionState(topic_id=topic_id, index=0, replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
    key = SPACE.partition(topic_id, 0)
    await etcd.transaction([], [op.put(key, codec.encode_partition(left))])
    controller(1)
    await feed.wait_for(lambda state: state.controller is not None and not feed.orphans(), 20)
    assert await etcd.read(key) is None


async def test_what_a_failed_change_has_written_is_removed_by_the_next_one(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    await membership_of(broker_member(1)).start()
    # Partitions go first, in transactions of their own; then comes a topic record that is too large for etcd.
    too_large = {"retention.ms": "5".rjust(ETCD_REQUEST_BYTES_MAX)}
    with pytest.raises(KafkaError, match=r"could not be stored: .* request is too large"):
        await client.create_topics([new_topic(name="big", partition_count=300, configs=too_large)])
    await feed.wait_for(lambda _: bool(feed.orphans()), 10)
    (created,) = await client.create_topics([new_topic(name="small")])
    assert created.error_code is ErrorCode.none
    assert set(feed.state.topics) == {"small"}
    assert feed.orphans() == []


async def test_a_controller_ends_when_its_etcd_was_emptied(
    controller: MakeController, feed: ClusterStateFeed, etcd_process: EtcdProcess
) -> None:
    process = controller(1)
    await feed.wait_for(lambda state: state.controller is not None, 20)
    etcd_process.stop()
    shutil.rmtree(etcd_process.directory / "data")
    etcd_process.start()
    assert process.child.wait(within_s=30) == 1
    assert "was etcd restored or emptied?" in process.child.log_tail()


async def test_requests_survive_a_restart_of_etcd(
    controller: MakeController,
    client: ControllerClient,
    feed: ClusterStateFeed,
    membership_of: Join,
    etcd_process: EtcdProcess,
) -> None:
    controller(1, f"member.lease.ttl.ms={LONG_TTL_MS}")
    await membership_of(broker_member(1)).start()
    await client.create_topics([new_topic(name="before")])
    etcd_process.restart()
    (created,) = await client.create_topics([new_topic(name="after")])
    assert created.error_code is ErrorCode.none
    assert set(feed.state.topics) == {"before", "after"}


async def test_a_thousand_topics_and_a_topic_of_thousands_of_partitions(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    broker = membership_of(broker_member(1))
    await broker.start()
    await client.create_topics([new_topic(name=f"t{number}") for number in range(1000)])
    await client.create_topics([new_topic(name="wide", partition_count=4000)])
    assert len(feed.state.topics) == 1001
    await broker.close()
    await feed.wait_for(
        lambda state: all(p.leader == NO_LEADER for t in state.topics.values() for p in t.partitions), 60
    )


def test_a_second_controller_with_the_same_id_is_refused_by_name(controller: MakeController, tmp_path: Path) -> None:
    first = controller(1, "member.lease.ttl.ms=5000")  # the twin takes over from one whose lease lapses
    twin = ControllerProcess(tmp_path / "twin", 1, settings=settings_of(first.child))
    twin.child.start()
    assert twin.child.wait(within_s=60) == 1
    assert f"controller id 1 is in use by the process at {first.rpc_address}" in twin.child.log_tail()


def settings_of(child: ChildProcess) -> list[str]:
    return [word for word in child.command if word.startswith(("etcd.", "cluster.", "member."))]


def test_a_port_in_use_is_refused_by_name(controller: MakeController, tmp_path: Path) -> None:
    first = controller(1)
    settings = [*settings_of(first.child), f"rpc.listener={first.rpc_address}"]
    second = ControllerProcess(tmp_path / "second", 2, settings=settings)
    second.child.start()
    assert second.child.wait(within_s=30) == 1
    assert f"cannot listen on {first.rpc_address}" in second.child.log_tail()
