"""Which brokers get replicas and which give them up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.commands.topic import alter
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import PartitionView
from ottla_operations.cluster.replication_factor import TooFewBrokers, plan_replication_factor
from ottla_operations.errors import OperationError


def partition(index: int, replicas: tuple[int, ...], *, leader: int | None = None, in_sync: tuple[int, ...] = ()):
    return PartitionView(TopicPartition("t", index), leader or replicas[0], replicas, in_sync or replicas)


def planned(factor: int, racks, *partitions: PartitionView) -> dict[int, tuple[int, ...]]:
    by_name = {each.name: each for each in partitions}
    plan = plan_replication_factor(factor, by_name, racks, by_name, {})
    return {name.partition: replicas for name, replicas in plan.items()}


THREE = dict.fromkeys((1, 2, 3))


def test_new_replicas_are_shared_out_and_the_preferred_leaders_stay():
    plan = planned(2, THREE, *(partition(index, (1,)) for index in range(4)))
    assert {replicas[0] for replicas in plan.values()} == {1}
    assert sorted(replicas[1] for replicas in plan.values()) == [2, 2, 3, 3]


def test_new_replicas_go_to_other_racks():
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    assert planned(2, racks, partition(0, (1,)), partition(1, (3,))) == {0: (1, 4), 1: (3, 2)}


@pytest.mark.parametrize(
    ("standing", "kept"),
    [
        (partition(0, (1, 2, 3), leader=3), 3),
        (partition(0, (1, 2, 9), leader=2), 2),
        (partition(0, (1, 2, 3), leader=2, in_sync=(2, 3)), 2),
    ],
)
def test_the_leader_stays(standing, kept):
    assert planned(1, THREE, standing)[0] == (kept,)


def test_replicas_of_brokers_that_are_away_go_first_then_those_out_of_sync_then_those_of_crowded_racks():
    assert planned(2, THREE, partition(0, (1, 9, 3), in_sync=(1, 3))) == {0: (1, 3)}
    assert planned(2, THREE, partition(0, (1, 2, 3), in_sync=(1, 3))) == {0: (1, 3)}
    racks = {1: "a", 2: "b", 3: "a"}
    assert planned(2, racks, partition(0, (1, 2, 3))) == {0: (1, 2)}


def test_what_is_as_it_should_be_stays_and_too_few_brokers_are_told():
    assert planned(2, THREE, partition(0, (1, 2))) == {}
    with pytest.raises(TooFewBrokers, match="4 replicas need 4 brokers, and 3 are in service"):
        planned(4, THREE, partition(0, (1,)))


@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4, unique=True), min_size=1, max_size=8),
    st.integers(1, 4),
    st.lists(st.sampled_from([None, "a", "b"]), min_size=4, max_size=4),
)
def test_every_plan_has_the_factor_keeps_the_leader_and_copies_no_more_than_it_must(replicas, factor, racks):
    brokers = dict(enumerate(racks, start=1))
    standing = [partition(index, tuple(each)) for index, each in enumerate(replicas) if each[0] in brokers]
    plan = planned(factor, brokers, *standing)
    for each in standing:
        after = plan.get(each.name.partition, each.replicas)
        assert len(after) == len(set(after)) == factor
        assert each.leader in after
        assert set(after) <= set(each.replicas) if factor <= len(each.replicas) else set(after) >= set(each.replicas)
        assert set(after) - set(each.replicas) <= brokers.keys()


def test_settings_of_clients_reach_the_connections_that_move_replicas():
    token = "enable.sasl.oauthbearer.unsecure.jwt=true"
    properties = ["security.protocol=sasl_ssl", "sasl.mechanism=OAUTHBEARER", token]
    with pytest.raises(OperationError, match="must be set for OAUTHBEARER"):
        alter(topics=["t"], replication_factor=2, properties=properties)
