"""Who answers for a group, by the cluster state."""

from collections import Counter
from dataclasses import replace

import pytest

from ottla_broker.groups.errors import NotCoordinator
from ottla_broker.groups.routing import broker_for, owner_of, owners, shard_for
from ottla_core.cluster.state.model import ClusterState
from tests.support.broker.scripted_coordinator import ScriptedCoordinator
from tests.support.groups.group_cluster import group_shard, group_state

FIRST = ScriptedCoordinator(1).member()
SECOND = ScriptedCoordinator(2).member()


def test_a_shard_belongs_to_the_coordinator_that_it_is_assigned_to() -> None:
    state = group_state(FIRST, SECOND)

    assert [owner_of(state, group_shard(shard)).id for shard in range(4)] == [1, 2, 1, 2]
    assert {owner.id for owner in owners(state)} == {1, 2}


def test_a_coordinator_that_has_registered_anew_does_not_own_what_it_was_assigned_before() -> None:
    state = replace(group_state(FIRST), coordinators={1: replace(FIRST, epoch=2)})

    with pytest.raises(NotCoordinator):
        owner_of(state, group_shard(0))


def test_a_shard_without_a_live_owner_leaves_the_list_of_owners_incomplete() -> None:
    state = replace(group_state(FIRST, SECOND), coordinators={1: FIRST})

    with pytest.raises(NotCoordinator):
        owners(state)


def test_without_the_topic_of_groups_there_is_no_shard_and_no_owner() -> None:
    assert owners(ClusterState()) == []
    with pytest.raises(NotCoordinator):
        shard_for(ClusterState(), "g")


@pytest.mark.parametrize(("group", "java_hash"), [("hello", 99162322), ("polygenelubricants", 0), ("", 0)])
def test_a_group_is_in_kafkas_shard(group: str, java_hash: int) -> None:
    # The second one's String.hashCode is the smallest int, of which Kafka's Utils.abs makes 0.
    assert shard_for(group_state(FIRST, shard_count=50), group) == group_shard(java_hash % 50)


def test_groups_are_spread_over_the_brokers() -> None:
    counts = Counter(broker_for(f"group-{number}", [1, 2, 3]) for number in range(3000))

    assert set(counts) == {1, 2, 3}
    assert min(counts.values()) > 850


def test_a_broker_that_goes_moves_its_own_groups_only() -> None:
    for number in range(500):
        before = broker_for(f"group-{number}", [1, 2, 3])
        after = broker_for(f"group-{number}", [3, 1])
        assert before in (after, 2)


def test_without_brokers_none_can_be_named() -> None:
    assert broker_for("g", []) is None
