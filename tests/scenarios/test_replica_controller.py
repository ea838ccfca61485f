"""Real controllers on a real etcd decide about replicas: brokers come and go, leaders propose, people ask."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_rpc.controller_api import (
    AlteredIsr,
    ConfigChange,
    ConfigResourceChange,
    ConfigResourceType,
    ElectionType,
    InSyncReplica,
    IsrChange,
    PartitionAssignment,
    Reassignment,
)
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import NO_LEADER, ClusterState, PartitionState, Role
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import BrokerIdNotRegistered, InvalidRequest, NotController, StaleBrokerEpoch
from ottla_core.topic_partition import TopicPartition
from tests.scenarios.conftest import CLUSTER, Join, MakeController, broker_member
from tests.support.controller.new_topics import new_topic
from tests.support.eventually import POLL_INTERVAL_S

SPACE = KeySpace(CLUSTER)
DIRECTORIES = {broker_id: uuid4() for broker_id in range(1, 5)}

pytestmark = pytest.mark.slow


async def join(membership_of: Join, *broker_ids: int) -> dict[int, Membership]:
    memberships = {}
    for broker_id in broker_ids:
        memberships[broker_id] = membership_of(broker_member(broker_id, directory_id=DIRECTORIES[broker_id]))
        await memberships[broker_id].start()
    return memberships


async def create(
    client: ControllerClient,
    *replicas: tuple[int, ...],
    name: str = "a",
    configs: dict[str, str | None] | None = None,
) -> None:
    """Creates a topic with these replicas."""
    assignments = tuple(PartitionAssignment(index=i, broker_ids=ids) for i, ids in enumerate(replicas))
    (created,) = await client.create_topics([new_topic(name=name, assignments=assignments, configs=configs or {})])
    assert created.error_code is ErrorCode.none, created.error_message


def only(state: ClusterState, topic: str = "a") -> PartitionState:
    (partition,) = state.topics[topic].partitions
    return partition


def proposal(state: ClusterState, isr: Sequence[int], topic: str = "a") -> IsrChange:
    """What the leader would propose that sees this state."""
    partition = only(state, topic)
    return IsrChange(
        topic_id=partition.topic_id,
        index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple(InSyncReplica(broker_id=one, broker_epoch=state.brokers[one].epoch) for one in isr),
    )


async def propose(
    client: ControllerClient, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
) -> tuple[list[AlteredIsr], int]:
    """Propose changes in a broker's name, again and again while no controller leads, as a broker does.

    The leases of controllers are short here, and lapse where a machine stands still.
    """
    async with asyncio.timeout(120):
        while True:
            try:
                return await client.alter_partitions(broker_id, broker_epoch, changes, timeout_s=120)
            except NotController:
                await asyncio.sleep(POLL_INTERVAL_S)  # between two tries; the deadline ends them


async def alter_isr(client: ControllerClient, feed: ClusterStateFeed, isr: Sequence[int]) -> PartitionState:
    """Has the leader's proposal accepted; returns the partition as it is then."""
    change = proposal(feed.state, isr)
    (altered,), revision = await propose(
        client, only(feed.state).leader, only(feed.state).leader_broker_epoch, [change]
    )
    assert altered.error_code in {ErrorCode.none, ErrorCode.new_leader_elected}, altered
    return only(await feed.wait_for_revision(revision, 10))


async def announce_shutdown(etcd: EtcdClient, feed: ClusterStateFeed, broker_id: int) -> None:
    """Writes into a broker's own key, as the broker would, that it is about to leave."""
    key = SPACE.member(Role.BROKER, broker_id)
    found = await etcd.read(key)
    assert found is not None
    value = codec.encode_member(replace(feed.state.brokers[broker_id], shutting_down=True))
    await etcd.transaction([], [op.put(key, value, found.lease_id)])


async def test_a_leaders_proposals_are_written_once_and_outdated_ones_refused(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    memberships = await join(membership_of, 1, 2, 3)
    await create(client, (1, 2, 3), configs={"min.insync.replicas": "2"})
    state = feed.state
    shrunk = await alter_isr(client, feed, (1,))
    assert (shrunk.isr, shrunk.eligible_leaders, shrunk.leader_epoch) == ((1,), (2, 3), 0)
    (late,), _ = await propose(client, 1, memberships[1].epoch, [proposal(state, (1, 2))])
    assert late.error_code is ErrorCode.invalid_update_version
    grown = await alter_isr(client, feed, (1, 2))
    assert (grown.isr, grown.eligible_leaders) == ((1, 2), ())
    same = await alter_isr(client, feed, (1, 2))
    assert same.partition_epoch > grown.partition_epoch
    with pytest.raises(StaleBrokerEpoch):
        await propose(client, 1, memberships[2].epoch, [proposal(feed.state, (1,))])


async def test_a_broker_that_shuts_down_hands_over_and_leaves_the_isrs(
    controller: MakeController,
    client: ControllerClient,
    feed: ClusterStateFeed,
    membership_of: Join,
    etcd: EtcdClient,
) -> None:
    controller(1)
    await join(membership_of, 1, 2, 3)
    await create(client, (1, 2, 3), (2, 1, 3))
    await create(client, (1,), name="single")
    await announce_shutdown(etcd, feed, 1)
    state = await feed.wait_for(lambda state: all(1 not in p.isr for p in state.topics["a"].partitions), 20)
    assert [(p.leader, p.isr, p.leader_epoch) for p in state.topics["a"].partitions] == [
        (2, (2, 3), 1),
        (2, (2, 3), 0),
    ]
    assert only(state, "single").leader == 1


async def test_a_broker_back_without_its_disk_is_not_elected_not_even_by_the_next_controller(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    first = controller(1)
    memberships = await join(membership_of, 1, 2)
    await create(client, (1, 2), configs={"min.insync.replicas": "2"})
    await memberships[2].close()
    await feed.wait_for(lambda state: only(state).eligible_leaders == (2,), 20)
    first.child.kill()
    await memberships[1].close()
    wiped = membership_of(broker_member(1, directory_id=uuid4()))
    await wiped.start()
    controller(2)
    state = await feed.wait_for(lambda state: state.registrations[1].broker_epoch == wiped.epoch, 30)
    assert (only(state).leader, only(state).isr, only(state).eligible_leaders) == (NO_LEADER, (), (2,))
    await join(membership_of, 2)
    state = await feed.wait_for(lambda state: only(state).leader == 2, 20)
    assert (only(state).isr, only(state).eligible_leaders) == ((2,), ())


async def test_the_last_disk_lost_leaves_a_partition_that_only_an_unclean_election_revives(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    memberships = await join(membership_of, 1)
    await create(client, (1,))
    await memberships[1].close()
    await membership_of(broker_member(1, directory_id=uuid4())).start()
    await feed.wait_for(
        lambda state: (only(state).leader, only(state).isr, only(state).eligible_leaders) == (NO_LEADER, (), ()), 20
    )
    (refused,), _ = await client.elect_leaders(ElectionType.PREFERRED, [TopicPartition("a", 0)])
    assert refused.error_code is ErrorCode.preferred_leader_not_available
    (elected,), _ = await client.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("a", 0)])
    assert elected.error_code is ErrorCode.none
    assert (only(feed.state).leader, only(feed.state).isr) == (1, (1,))


async def test_leaderships_go_back_on_request(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    memberships = await join(membership_of, 1, 2)
    await create(client, (1, 2))
    await memberships[1].close()
    await feed.wait_for(lambda state: only(state).leader == 2, 20)
    await join(membership_of, 1)
    await feed.wait_for(lambda state: 1 in state.brokers, 20)
    (refused,), _ = await client.elect_leaders(ElectionType.PREFERRED, [TopicPartition("a", 0)])
    assert refused.error_code is ErrorCode.preferred_leader_not_available
    await alter_isr(client, feed, (2, 1))
    (elected,), _ = await client.elect_leaders(ElectionType.PREFERRED, None)
    assert (elected.topic, elected.index, elected.error_code) == ("a", 0, ErrorCode.none)
    assert only(feed.state).leader == 1
    assert (await client.elect_leaders(ElectionType.PREFERRED, None))[0] == []


async def test_leaderships_go_back_by_themselves(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1, "leader.imbalance.check.interval.seconds=1")
    memberships = await join(membership_of, 1, 2)
    await create(client, (1, 2))
    await memberships[1].close()
    await feed.wait_for(lambda state: only(state).leader == 2, 20)
    await join(membership_of, 1)
    await feed.wait_for(lambda state: 1 in state.brokers, 20)
    await alter_isr(client, feed, (2, 1))
    await feed.wait_for(lambda state: only(state).leader == 1, 20)


async def test_a_partition_moves_to_other_brokers_and_back(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    await join(membership_of, 1, 2, 3, 4)
    await create(client, (1, 2))
    (begun,), _ = await client.alter_reassignments([Reassignment(topic="a", index=0, replicas=(3, 4))])
    assert begun.error_code is ErrorCode.none
    assert (only(feed.state).replicas, only(feed.state).adding) == ((3, 4, 1, 2), (3, 4))
    await client.alter_reassignments([Reassignment(topic="a", index=0, replicas=None)])
    assert (only(feed.state).replicas, only(feed.state).adding) == ((1, 2), ())
    await client.alter_reassignments([Reassignment(topic="a", index=0, replicas=(3, 4))])
    await alter_isr(client, feed, (1, 2, 3))
    moved = await alter_isr(client, feed, (1, 2, 3, 4))
    assert (moved.replicas, moved.isr, moved.leader, moved.removing) == ((3, 4), (3, 4), 3, ())
    (refused,), _ = await client.alter_reassignments(
        [Reassignment(topic="a", index=0, replicas=(1, 2, 3))], allow_replication_factor_change=False
    )
    assert refused.error_code is ErrorCode.invalid_replication_factor


async def test_a_reassignment_survives_the_controller(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    first = controller(1)
    await join(membership_of, 1, 2)
    await create(client, (1,))
    await client.alter_reassignments([Reassignment(topic="a", index=0, replicas=(2,))])
    first.child.kill()
    controller(2)
    await feed.wait_for(lambda state: state.controller is not None and state.controller.id == 2, 20)
    moved = await alter_isr(client, feed, (1, 2))
    assert (moved.replicas, moved.leader, moved.leader_epoch) == ((2,), 2, 1)


async def test_a_broker_is_unregistered_once_it_is_down_and_nobody_needs_it(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    memberships = await join(membership_of, 1, 2)
    await create(client, (1, 2))
    await create(client, (2,), name="single")
    await feed.wait_for(lambda state: set(state.registrations) == {1, 2}, 20)
    assert feed.state.registrations[2].directory_ids == (DIRECTORIES[2],)
    with pytest.raises(InvalidRequest, match="is running"):
        await client.unregister_broker(2)
    await memberships[2].close()
    await feed.wait_for(lambda state: only(state, "single").leader == NO_LEADER, 20)
    with pytest.raises(InvalidRequest, match="Only broker 2 has the newest records of single-0"):
        await client.unregister_broker(2)
    await client.alter_reassignments([Reassignment(topic="a", index=0, replicas=(1,))])
    reference = [Reassignment(topic="single", index=0, replicas=(1,))]
    await client.alter_reassignments(reference)
    await client.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("single", 0)])
    revision = await client.unregister_broker(2)
    assert set((await feed.wait_for_revision(revision, 10)).registrations) == {1}
    with pytest.raises(BrokerIdNotRegistered):
        await client.unregister_broker(2)


async def test_another_minimum_of_in_sync_replicas_is_seen_only_without_eligible_leaders(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    await join(membership_of, 1, 2)
    await create(client, (1, 2), configs={"min.insync.replicas": "2"})
    assert (await alter_isr(client, feed, (1,))).eligible_leaders == (2,)
    seen: list[tuple[str, tuple[int, ...]]] = []
    unsubscribe = feed.subscribe(
        lambda _, new: seen.append((new.topics["a"].configs["min.insync.replicas"], only(new).eligible_leaders))
    )
    await client.alter_configs(
        [
            ConfigResourceChange(
                type=ConfigResourceType.TOPIC,
                name="a",
                changes=(ConfigChange(name="min.insync.replicas", value="1"),),
            )
        ]
    )
    unsubscribe()
    assert ("1", ()) in seen
    assert ("1", (2,)) not in seen


async def test_thousands_of_partitions_fail_over_and_come_back(
    controller: MakeController, client: ControllerClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    controller(1)
    memberships = await join(membership_of, 1, 2, 3)
    await client.create_topics([new_topic(name="a", partition_count=2000, replication_factor=3)], timeout_s=120)
    await memberships[1].close()

    def is_over(state: ClusterState) -> bool:
        return all(p.leader != 1 and 1 not in p.isr for p in state.topics["a"].partitions)

    await feed.wait_for(is_over, 120)
    await join(membership_of, 1)
    state = await feed.wait_for(lambda state: 1 in state.brokers, 30)
    topic_id: UUID = state.topics["a"].id
    for leader in (2, 3):
        changes = [
            IsrChange(
                topic_id=topic_id,
                index=p.index,
                leader_epoch=p.leader_epoch,
                partition_epoch=p.partition_epoch,
                isr=tuple(InSyncReplica(broker_id=one, broker_epoch=state.brokers[one].epoch) for one in (1, 2, 3)),
            )
            for p in state.topics["a"].partitions
            if p.leader == leader
        ]
        altered, _ = await propose(client, leader, state.brokers[leader].epoch, changes)
        assert {one.error_code for one in altered} == {ErrorCode.none}
    elected, revision = await client.elect_leaders(ElectionType.PREFERRED, None, timeout_s=120)
    assert {one.error_code for one in elected} == {ErrorCode.none}
    state = await feed.wait_for_revision(revision, 120)
    assert all(p.leader == p.replicas[0] and len(p.isr) == 3 for p in state.topics["a"].partitions)
