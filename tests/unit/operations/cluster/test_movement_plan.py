"""Plans for a cluster as it is now, and whether one that was made before still fits."""

from dataclasses import replace

import pytest

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.movement_plan import (
    absent_brokers,
    check_nothing_moves,
    check_still_fits,
    departure_plan,
    rebalance_plan,
)
from ottla_operations.errors import OperationError
from tests.unit.operations.cluster.simulated_cluster import SimulatedCluster

NAMES = [TopicPartition("t", index) for index in range(6)]


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster(dict.fromkeys(NAMES, (1, 2)), brokers=(1, 2, 3))


def test_a_rebalance_fits_until_replicas_or_brokers_are_others(cluster):
    plan = rebalance_plan(cluster)
    assert plan.targets
    assert plan.summary().copies == 4
    check_still_fits(cluster, plan)
    name, target = next(iter(plan.targets.items()))
    partition = cluster.partitions[name]
    cluster.partitions[name] = replace(partition, replicas=(2, 1))
    with pytest.raises(OperationError, match=f"nothing was moved: {name} has other replicas by now"):
        check_still_fits(cluster, plan)
    del cluster.partitions[name]
    with pytest.raises(OperationError, match=f"nothing was moved: {name} has other replicas by now"):
        check_still_fits(cluster, plan)
    cluster.partitions[name] = partition
    assert 3 in {broker for target in plan.targets.values() for broker in target}, target
    del cluster.brokers[3]
    with pytest.raises(OperationError, match="nothing was moved: broker 3 is gone by now"):
        check_still_fits(cluster, plan)


def test_nothing_is_planned_or_begun_while_something_moves(cluster):
    plan = rebalance_plan(cluster)
    cluster.polls_to_move = 100
    cluster.reassign({NAMES[0]: (1, 3)})
    with pytest.raises(OperationError, match="1 partition is being moved already, for example t-0"):
        check_nothing_moves(cluster)
    with pytest.raises(OperationError, match="being moved already"):
        check_still_fits(cluster, plan)


def test_a_departure_leaves_nothing_on_the_broker_and_a_broker_that_is_away_is_told(cluster):
    plan = departure_plan(cluster, 2)
    assert set(plan.targets) == set(NAMES)
    assert all(2 not in target for target in plan.targets.values())
    assert absent_brokers(cluster.view()) == []
    del cluster.brokers[2]
    assert absent_brokers(cluster.view()) == [2]
    check_still_fits(cluster, plan)  # it may be lost: its copies are made from others
