"""Registration against a real etcd: epochs, predecessors, ids in use, lost leases and lost answers."""

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest

from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.membership.cluster_id import ensure_cluster_id
from ottla_core.cluster.membership.membership import MemberIdInUse
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import NO_EPOCH, Role
from ottla_core.cluster.view.feed import ClusterStateFeed
from tests.scenarios.conftest import CLUSTER, SHORT_TTL_MS, Join, broker_member
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.eventually_async import eventually_async
from tests.support.servers.faulty_proxy import FaultyProxy

KEY = KeySpace(CLUSTER).member(Role.BROKER, 1)


async def test_a_member_is_seen_with_its_epoch_and_goes_at_once_when_it_leaves(
    feed: ClusterStateFeed, membership_of: Join
) -> None:
    membership = membership_of(broker_member(1))
    await membership.start()
    assert membership.is_current()
    state = await feed.wait_for_revision(membership.epoch, 10)
    assert state.brokers[1].epoch == membership.epoch
    await membership.close()
    assert (membership.epoch, membership.is_current()) == (NO_EPOCH, False)
    await feed.wait_for(lambda state: state.brokers == {}, 10)


async def test_a_successor_with_the_same_log_directory_takes_over_at_once_with_a_higher_epoch(
    membership_of: Join,
) -> None:
    directory_id = uuid4()
    dead = membership_of(broker_member(1, directory_id=directory_id))
    await dead.start()
    former_epoch = dead.epoch
    successor = membership_of(broker_member(1, directory_id=directory_id))
    await successor.start()
    assert successor.epoch > former_epoch
    failure = await asyncio.wait_for(dead.wait_failed(), 10)
    assert isinstance(failure, MemberIdInUse)


async def test_a_process_that_registers_again_has_lost_nothing_since_its_first_registration(
    feed: ClusterStateFeed, membership_of: Join, etcd: EtcdClient
) -> None:
    membership = membership_of(replace(broker_member(1), intact_since=NO_EPOCH))
    await membership.start()
    first_epoch = membership.epoch
    state = await feed.wait_for_revision(first_epoch, 10)
    assert state.brokers[1].intact_since == NO_EPOCH
    await etcd.transaction([], [op.delete(KEY)])
    state = await feed.wait_for(lambda state: 1 in state.brokers and state.brokers[1].epoch > first_epoch, 10)
    assert state.brokers[1].intact_since == first_epoch
    await membership.close()


@pytest.mark.slow
async def test_a_second_process_with_an_id_in_use_is_refused_and_told_who_has_it(membership_of: Join) -> None:
    holder = membership_of(broker_member(1))
    await holder.start()
    with pytest.raises(MemberIdInUse, match=r"broker id 1 is in use by the process at 127\.0\.0\.1:7001"):
        await membership_of(broker_member(1), ttl_ms=SHORT_TTL_MS).start()
    assert holder.is_current()


@pytest.mark.slow
async def test_the_id_of_a_dead_process_is_free_after_its_ttl(etcd: EtcdClient, membership_of: Join) -> None:
    lease_id, _ = await etcd.grant_lease(1)
    await etcd.transaction([], [op.put(KEY, b"left by a dead process", lease_id)])
    membership = membership_of(broker_member(1), ttl_ms=SHORT_TTL_MS)
    await membership.start()
    assert membership.is_current()


@pytest.mark.slow
async def test_a_member_cut_off_steps_down_by_its_own_clock_and_registers_anew(
    feed: ClusterStateFeed, membership_of: Join, etcd_process: EtcdProcess
) -> None:
    membership = membership_of(broker_member(1), ttl_ms=SHORT_TTL_MS)
    await membership.start()
    former_epoch = membership.epoch
    etcd_process.pause()
    try:
        await eventually_async(lambda: not membership.is_current(), "it has stepped down", within_s=10)
        assert membership.epoch == NO_EPOCH
    finally:
        etcd_process.resume()
    await eventually_async(membership.is_current, "it has registered again")
    assert membership.epoch > former_epoch
    state = await feed.wait_for_revision(membership.epoch, 10)
    assert state.brokers[1].epoch == membership.epoch


async def test_a_revoked_lease_is_replaced_and_the_member_registers_anew(
    etcd: EtcdClient, membership_of: Join
) -> None:
    membership = membership_of(broker_member(1))
    await membership.start()
    former_epoch = membership.epoch
    await etcd.revoke_lease(membership.session.lease.id)
    await eventually_async(lambda: membership.epoch > former_epoch, "it has registered again")
    found = await etcd.read(KEY)
    assert found is not None
    assert found.create_revision == membership.epoch


async def test_a_key_that_somebody_deleted_is_made_anew(etcd: EtcdClient, membership_of: Join) -> None:
    membership = membership_of(broker_member(1))
    await membership.start()
    former_epoch = membership.epoch
    await etcd.transaction([], [op.delete(KEY)])
    await eventually_async(lambda: membership.epoch > former_epoch, "it has registered again")


@pytest.mark.slow
async def test_a_member_stays_registered_over_a_restart_of_etcd(
    membership_of: Join, etcd_process: EtcdProcess
) -> None:
    membership = membership_of(broker_member(1), ttl_ms=5000)
    await membership.start()
    epoch = membership.epoch
    etcd_process.restart()
    lease = membership.session.lease
    before = lease.remaining_s()
    await eventually_async(lambda: lease.remaining_s() > before, "the lease was renewed")
    assert membership.epoch == epoch


@pytest.mark.parametrize("lost", ["answers", "requests"])
async def test_a_registration_whose_answer_was_lost_ends_with_one_key(
    etcd: EtcdClient, proxied_etcd: EtcdClient, proxy: FaultyProxy, membership_of: Join, lost: str
) -> None:
    membership = membership_of(broker_member(1), client=proxied_etcd, ttl_ms=20_000)
    await membership.session.start()
    async with proxy.losing(lost):
        registering = asyncio.create_task(membership._register())
    await asyncio.wait_for(registering, 30)
    found = await etcd.read(KEY)
    assert found is not None
    assert found.create_revision == membership.epoch


async def test_the_cluster_id_is_drawn_once(etcd: EtcdClient, feed: ClusterStateFeed) -> None:
    drawn = await asyncio.gather(*(ensure_cluster_id(etcd, CLUSTER) for _ in range(5)))
    assert len(set(drawn)) == 1
    state = await feed.wait_for(lambda state: bool(state.cluster_id), 10)
    assert state.cluster_id == drawn[0]


@pytest.mark.slow
async def test_the_owner_hears_of_every_registration_and_of_the_loss_of_its_lease(
    membership_of: Join, etcd_process: EtcdProcess
) -> None:
    epochs: list[int] = []

    def note() -> None:
        epochs.append(membership.epoch)
        raise RuntimeError("listener's bug")

    membership = membership_of(broker_member(1), ttl_ms=SHORT_TTL_MS, on_change=note)
    await membership.start()
    first = membership.epoch
    assert epochs == [first]
    etcd_process.pause()
    try:
        await eventually_async(lambda: epochs == [first, NO_EPOCH], "it has heard of the loss", within_s=10)
    finally:
        etcd_process.resume()
    await eventually_async(lambda: len(epochs) == 3, "it has heard of the new registration")
    assert epochs[-1] == membership.epoch > first


@pytest.mark.slow
async def test_a_member_that_may_keeps_its_epoch_if_its_key_has_outlived_an_absence_of_etcd(
    feed: ClusterStateFeed, membership_of: Join, etcd_process: EtcdProcess
) -> None:
    membership = membership_of(broker_member(1), ttl_ms=SHORT_TTL_MS, resume=True)
    await membership.start()
    epoch = membership.registered_epoch
    etcd_process.stop()
    await eventually_async(lambda: not membership.is_current(), "its registration has lapsed", within_s=10)
    assert (membership.epoch, membership.registered_epoch) == (NO_EPOCH, epoch)

    etcd_process.start()

    await eventually_async(membership.is_current, "it is registered again")
    assert membership.epoch == membership.registered_epoch == epoch
    state = await feed.wait_for(lambda state: 1 in state.brokers, 10)
    assert state.brokers[1].epoch == epoch


@pytest.mark.slow
async def test_a_member_whose_key_has_gone_meanwhile_gets_a_new_epoch(
    membership_of: Join, etcd_process: EtcdProcess, proxied_etcd: EtcdClient, proxy: FaultyProxy, etcd: EtcdClient
) -> None:
    membership = membership_of(broker_member(1), client=proxied_etcd, ttl_ms=SHORT_TTL_MS, resume=True)
    await membership.start()
    epoch = membership.registered_epoch
    async with proxy.losing("requests"):
        await eventually_async(lambda: not membership.is_current(), "its registration has lapsed", within_s=10)
        async with asyncio.timeout(10):
            await etcd.wait_for_deletion(KEY, epoch)
    await eventually_async(membership.is_current, "it is registered again", within_s=20)
    assert membership.epoch > epoch
    await membership.close()  # before the proxy goes


async def test_a_member_says_that_it_is_about_to_leave_and_keeps_its_epoch(
    feed: ClusterStateFeed, membership_of: Join
) -> None:
    membership = membership_of(broker_member(1))
    await membership.start()

    await membership.announce_shutdown()

    state = await feed.wait_for(lambda state: 1 in state.brokers and state.brokers[1].shutting_down, 10)
    assert state.brokers[1].epoch == membership.epoch
