"""Levels of features against a real etcd and a real controller: who may take part, and who comes in between."""

from dataclasses import replace

import pytest

from ottla_core.cluster.controller_rpc.controller_api import FeatureUpdate, FeatureUpdateType
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.membership.cluster_id import ensure_cluster_id
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.feature_check import LevelUnsupported
from ottla_core.cluster.state.features import NEWEST_LEVEL, OTTLA_VERSION, SUPPORTED, UNSAID
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import InvalidUpdateVersion
from tests.scenarios.conftest import CLUSTER, Join, MakeController, broker_member

SPACE = KeySpace(CLUSTER)
UP = FeatureUpdate(feature=OTTLA_VERSION, level=2)
DOWN = FeatureUpdate(feature=OTTLA_VERSION, level=1, type=FeatureUpdateType.SAFE_DOWNGRADE)

pytestmark = pytest.mark.slow


async def set_level(etcd: EtcdClient, feed: ClusterStateFeed, level: int) -> None:
    put = op.put(SPACE.features, codec.encode_features({OTTLA_VERSION: level}))
    await feed.wait_for_revision((await etcd.transaction([], [put])).revision, 10)


async def test_a_new_cluster_begins_at_the_newest_level_and_one_with_state_at_the_first(
    etcd: EtcdClient, feed: ClusterStateFeed
) -> None:
    await etcd.transaction([], [op.put(SPACE.producer_ids, codec.encode_next_producer_id(7))])
    await ensure_cluster_id(etcd, CLUSTER)
    state = await feed.wait_for(lambda state: state.cluster_id != "", 10)
    assert (state.features.level, state.features.epoch) == (1, 0)

    await ensure_cluster_id(etcd, "another")
    found = await etcd.read(KeySpace("another").features)
    assert found is not None
    assert codec.decode_features(found.value, found.mod_revision).level == NEWEST_LEVEL


async def test_a_process_without_the_level_neither_registers_nor_starts(
    etcd: EtcdClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    await set_level(etcd, feed, 2)
    with pytest.raises(LevelUnsupported, match=r"at level 2 of ottla\.version, and this release has level 1"):
        await membership_of(replace(broker_member(1), features=UNSAID)).start()
    await membership_of(replace(broker_member(2), features=SUPPORTED)).start()
    assert (await feed.wait_for(lambda state: bool(state.brokers), 10)).brokers.keys() == {2}

    await etcd.transaction([], [op.put(SPACE.features, codec.encode_features({OTTLA_VERSION: NEWEST_LEVEL + 1}))])
    assert isinstance(await feed.wait_failed(), LevelUnsupported)
    late = ClusterStateFeed(etcd, CLUSTER)
    with pytest.raises(LevelUnsupported, match=f"level {NEWEST_LEVEL + 1}"):
        await late.start()
    await late.close()


async def test_a_level_is_finalised_once_every_broker_has_it_also_those_that_are_away(
    controller: MakeController,
    client: ControllerClient,
    feed: ClusterStateFeed,
    membership_of: Join,
    etcd: EtcdClient,
) -> None:
    await set_level(etcd, feed, 1)
    controller(1)
    old = membership_of(replace(broker_member(1), features=UNSAID))
    await old.start()
    await feed.wait_for(lambda state: 1 in state.registrations, 10)
    with pytest.raises(InvalidUpdateVersion, match="broker 1 has level 1"):
        await client.update_features([UP])
    await old.close()
    await feed.wait_for(lambda state: not state.brokers, 10)
    with pytest.raises(InvalidUpdateVersion, match="broker 1, which is away"):
        await client.update_features([UP])
    assert feed.state.features.level == 1

    await membership_of(replace(broker_member(1), features=SUPPORTED)).start()
    await feed.wait_for(lambda state: 1 in state.brokers, 10)
    await client.update_features([UP], validate_only=True)
    assert feed.state.features.level == 1
    await client.update_features([UP])
    assert feed.state.features.level == 2
    await client.update_features([DOWN])
    assert feed.state.features.level == 1


async def test_the_write_of_a_level_fails_if_a_process_has_registered_since_the_decision(
    etcd: EtcdClient, feed: ClusterStateFeed, membership_of: Join
) -> None:
    await ensure_cluster_id(etcd, CLUSTER)
    state = await feed.wait_for(lambda state: state.features.epoch > 0, 10)
    write = op.put(SPACE.features, codec.encode_features({OTTLA_VERSION: 1}))
    await membership_of(replace(broker_member(1), features=SUPPORTED)).start()
    compare = op.none_created_after(SPACE.members, state.revision)
    assert not (await etcd.transaction([compare], [write])).succeeded
    state = await feed.wait_for(lambda state: 1 in state.brokers, 10)
    compare = op.none_created_after(SPACE.members, state.revision)
    assert (await etcd.transaction([compare], [write])).succeeded
