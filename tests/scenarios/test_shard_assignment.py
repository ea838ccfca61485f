"""Real controllers on a real etcd give the shards of topics to coordinators that come and go."""

from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from ottla_core.cluster.controller_rpc.controller_api import TopicReference
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import NO_COORDINATOR, ClusterState, Shard
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.shards import GROUP_TOPIC, SHARDED_TOPICS, TRANSACTION_TOPIC
from ottla_core.topic_partition import TopicPartition
from tests.scenarios.conftest import CLUSTER, Join, MakeController, broker_member, coordinator_member
from tests.support.controller.new_topics import new_topic

SPACE = KeySpace(CLUSTER)
SHARD_COUNT = 20
MANY_SHARDS = 300
"""More than one transaction takes."""

pytestmark = pytest.mark.slow


def owned_evenly_by(*coordinator_ids: int, shard_count: int = SHARD_COUNT) -> Callable[[ClusterState], bool]:
    """The condition that each shard has one of these owners, under its present epoch, and that shares are even."""

    def fulfilled(state: ClusterState) -> bool:
        valid = [
            shard.coordinator
            for shard in state.shards.values()
            if (owner := state.coordinators.get(shard.coordinator)) and owner.epoch == shard.coordinator_epoch
        ]
        counts = Counter(valid)
        sizes = counts.values()
        return len(valid) == shard_count and set(counts) == set(coordinator_ids) and max(sizes) - min(sizes) <= 1

    return fulfilled


def all_without_owner(state: ClusterState) -> bool:
    return all(shard.coordinator == NO_COORDINATOR for shard in state.shards.values())


def ownerships(shards: Mapping[TopicPartition, Shard]) -> set[tuple[int, int]]:
    return {(shard.producer_id, shard.producer_epoch) for shard in shards.values()}


async def create_group_topic(
    client: ControllerClient, shard_count: int = SHARD_COUNT, *, name: str = GROUP_TOPIC
) -> None:
    (created,) = await client.create_topics([new_topic(name=name, partition_count=shard_count)])
    assert created.error_code == 0, created.error_message


async def test_shards_follow_coordinators_that_come_leave_and_come_back(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    await membership_of(broker_member(1)).start()
    await membership_of(coordinator_member(1)).start()
    await create_group_topic(client)
    first = (await feed.wait_for(owned_evenly_by(1), 20)).shards
    assert len({shard.producer_id for shard in first.values()}) == SHARD_COUNT
    assert {shard.producer_epoch for shard in first.values()} == {0}

    second_member = membership_of(coordinator_member(2))
    await second_member.start()
    shared = (await feed.wait_for(owned_evenly_by(1, 2), 20)).shards
    moved = [index for index in first if shared[index] is not first[index]]
    assert len(moved) == SHARD_COUNT // 2
    assert {(shared[index].coordinator, shared[index].producer_epoch) for index in moved} == {(2, 1)}
    assert all(shared[index].producer_id == first[index].producer_id for index in first)

    await second_member.close()
    alone = (await feed.wait_for(owned_evenly_by(1), 20)).shards
    assert [index for index in shared if alone[index] is not shared[index]] == moved

    await membership_of(coordinator_member(2)).start()
    await feed.wait_for(owned_evenly_by(1, 2), 20)


async def test_shards_of_transactions_are_shared_out_by_themselves(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    await membership_of(broker_member(1)).start()
    for coordinator_id in (1, 2):
        await membership_of(coordinator_member(coordinator_id)).start()
    await create_group_topic(client)
    groups = (await feed.wait_for(owned_evenly_by(1, 2), 20)).shards
    await create_group_topic(client, 3, name=TRANSACTION_TOPIC)
    both = (await feed.wait_for(owned_evenly_by(1, 2, shard_count=SHARD_COUNT + 3), 20)).shards
    assert all(both[name] is shard for name, shard in groups.items()), "those of groups stay where they are"
    assert len(ownerships(both)) == SHARD_COUNT + 3
    assert {name.topic for name in both} == set(SHARDED_TOPICS)


async def test_without_coordinators_shards_have_no_owner_until_one_comes(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    await membership_of(broker_member(1)).start()
    await create_group_topic(client)
    only = membership_of(coordinator_member(1))
    await only.start()
    before = (await feed.wait_for(owned_evenly_by(1), 20)).shards
    await only.close()
    await feed.wait_for(all_without_owner, 20)
    back = membership_of(coordinator_member(1))
    await back.start()
    after = (await feed.wait_for(owned_evenly_by(1), 20)).shards
    assert {shard.coordinator_epoch for shard in after.values()} == {back.epoch}
    assert all(after[index].producer_id == before[index].producer_id for index in before)
    assert all(after[index].producer_epoch > before[index].producer_epoch for index in before)


async def test_a_coordinator_that_was_away_for_a_moment_gets_its_shards_back_under_its_new_epoch(
    controller: MakeController,
    client: ControllerClient,
    feed: ClusterStateFeed,
    membership_of: Join,
    etcd: EtcdClient,
) -> None:
    """Its key goes and comes so fast that a controller may never see it missing."""
    controller(1)
    await membership_of(broker_member(1)).start()
    for coordinator_id in (1, 2):
        await membership_of(coordinator_member(coordinator_id)).start()
    await create_group_topic(client)
    before = await feed.wait_for(owned_evenly_by(1, 2), 20)
    key = SPACE.member(before.coordinators[2].role, 2)
    await etcd.transaction([], [op.delete(key)])
    await etcd.transaction([], [op.put(key, codec.encode_member(coordinator_member(2)))])
    await feed.wait_for(
        lambda state: 2 in state.coordinators and state.coordinators[2].epoch > before.coordinators[2].epoch, 20
    )
    after = await feed.wait_for(owned_evenly_by(1, 2), 20)
    for index, former in before.shards.items():
        if former.coordinator == 2:
            assert after.shards[index].producer_epoch > former.producer_epoch


async def test_another_controller_takes_over_in_the_middle_of_a_reassignment(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    """The leader dies together with a coordinator; its successor moves the shards, and no ownership comes twice."""
    processes = {process.id: process for process in (controller(1), controller(2))}
    await membership_of(broker_member(1)).start()
    mortal = membership_of(coordinator_member(2))
    await membership_of(coordinator_member(1)).start()
    await mortal.start()
    await create_group_topic(client, MANY_SHARDS)
    state = await feed.wait_for(owned_evenly_by(1, 2, shard_count=MANY_SHARDS), 20)
    seen = ownerships(state.shards)
    assert len(seen) == MANY_SHARDS
    assert state.controller is not None
    processes[state.controller.id].child.kill()
    await mortal.close()
    former_epoch = state.controller.epoch
    await feed.wait_for(lambda state: state.controller is not None and state.controller.epoch > former_epoch, 30)
    after = await feed.wait_for(owned_evenly_by(1, shard_count=MANY_SHARDS), 20)
    changed = {index: shard for index, shard in after.shards.items() if shard is not state.shards[index]}
    assert len(changed) == MANY_SHARDS // 2
    assert not ownerships(changed) & seen

    # The new leader draws producer ids of its own, and those are no one else's.
    await client.delete_topics([TopicReference(name=GROUP_TOPIC)])
    await create_group_topic(client)
    renewed = await feed.wait_for(owned_evenly_by(1), 20)
    former_ids = {shard.producer_id for shard in after.shards.values()}
    assert len({shard.producer_id for shard in renewed.shards.values()} - former_ids) == SHARD_COUNT


async def test_a_deleted_topic_takes_its_shards_along_and_its_successor_begins_anew(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    await membership_of(broker_member(1)).start()
    await membership_of(coordinator_member(1)).start()
    await create_group_topic(client, MANY_SHARDS)
    before = await feed.wait_for(owned_evenly_by(1, shard_count=MANY_SHARDS), 20)
    (deleted,) = await client.delete_topics([TopicReference(name=GROUP_TOPIC)])
    assert deleted.error_code == 0
    assert feed.state.shards == {}
    await create_group_topic(client)
    after = await feed.wait_for(owned_evenly_by(1), 20)
    assert not ownerships(after.shards) & ownerships(before.shards)


async def test_shards_that_a_cut_short_deletion_left_are_removed_at_the_beginning_of_a_term(
    controller: MakeController, etcd: EtcdClient, feed: ClusterStateFeed
) -> None:
    left = Shard(
        topic_partition=TopicPartition(GROUP_TOPIC, 3),
        coordinator=1,
        coordinator_epoch=5,
        producer_id=9,
        producer_epoch=0,
    )
    result = await etcd.transaction([], [op.put(SPACE.shard(GROUP_TOPIC, 3), codec.encode_shard(left))])
    await feed.wait_for_revision(result.revision, 10)
    controller(1)
    await feed.wait_for(lambda state: not state.shards, 20)


async def test_a_shard_that_cannot_be_read_does_not_keep_a_controller_from_its_other_work(
    controller: MakeController,
    client: ControllerClient,
    feed: ClusterStateFeed,
    membership_of: Join,
    etcd: EtcdClient,
) -> None:
    first = controller(1)
    await membership_of(broker_member(1)).start()
    await create_group_topic(client)
    first.child.kill()
    await etcd.transaction([], [op.put(SPACE.shard(GROUP_TOPIC, 0), b"{")])
    controller(2)
    await membership_of(coordinator_member(1)).start()
    (created,) = await client.create_topics([new_topic(name="other")])
    assert created.error_code == 0
    await etcd.transaction([], [op.delete(SPACE.shard(GROUP_TOPIC, 0))])
    await feed.wait_for(owned_evenly_by(1), 20)
