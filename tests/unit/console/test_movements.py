"""Movements of the console: the plan that was shown, one at a time, ended when the console ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from ottla_console.clusters.movements import PLANS_MAX, Movements
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster import movement
from ottla_operations.cluster.movement import ORDERLY
from ottla_operations.cluster.movement_plan import MovementPlan, rebalance_plan
from ottla_operations.errors import OperationError
from tests.support.eventually import eventually
from tests.unit.operations.cluster.simulated_cluster import SimulatedCluster

NAMES = [TopicPartition("t", index) for index in range(30)]
ENDLESS = 1_000_000


class Kit:
    """Stands in for a user's connections."""

    def __init__(self, cluster: SimulatedCluster, user: str = "ada") -> None:
        self.settings = SimpleNamespace(name="prod")
        self.user = user
        self._cluster = cluster

    @contextmanager
    def cluster_admin(self) -> Iterator[SimulatedCluster]:
        yield self._cluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    monkeypatch.setattr(movement, "POLL_S", 0.001)
    return SimulatedCluster(dict.fromkeys(NAMES, (1, 2)), brokers=(1, 2, 3))


@pytest.fixture
def kit(cluster: SimulatedCluster) -> Any:
    return Kit(cluster)


def begun(movements: Movements, kit: Any, plan: MovementPlan, throttle: int | None = None) -> Any:
    return movements.begin(kit, movements.keep("prod", plan), "Evening out replicas", throttle)


def test_a_plan_that_was_shown_is_carried_out_and_told(cluster, kit):
    planned = rebalance_plan(cluster)
    movements, plan = Movements(), MovementPlan(planned.view, planned.targets, dict.fromkeys(NAMES, 7))
    running = begun(movements, kit, plan, throttle=1000)
    running.join(10)
    standing = running.standing()
    assert sorted(standing.result.moved) == sorted(plan.targets)
    assert (standing.user, standing.moved, standing.partitions) == ("ada", len(plan.targets), len(plan.targets))
    assert standing.copied_bytes == standing.size_bytes == 7 * plan.summary().copies
    assert standing.problem is None
    assert cluster.settings == {}
    assert cluster.settings_seen
    assert movements.of("prod") is running
    assert movements.of("test") is None


def test_a_plan_that_was_not_shown_or_fits_no_more_is_not_begun(cluster, kit):
    movements, plan = Movements(), rebalance_plan(cluster)
    digest = movements.keep("test", plan)
    with pytest.raises(OperationError, match="the plan is not kept any more"):
        movements.begin(kit, digest, "", None)  # it was of another cluster
    begun(movements, kit, plan).join(10)
    with pytest.raises(OperationError, match="has other replicas by now"):
        begun(movements, kit, plan)


def test_one_movement_goes_on_in_a_cluster_at_a_time(cluster, kit):
    movements, plan = Movements(), rebalance_plan(cluster)
    cluster.polls_to_move = ENDLESS
    running = begun(movements, kit, plan)
    eventually(lambda: cluster.most_at_once > 0, "partitions are on the way")
    with pytest.raises(OperationError, match="being moved already"):
        begun(movements, kit, plan)
    movements.close()
    assert len(running.standing().result.cancelled) == cluster.most_at_once
    assert {each.replicas for each in cluster.partitions.values()} == {(1, 2)}


def test_an_orderly_end_waits_for_what_is_on_the_way(cluster, kit):
    movements, plan = Movements(), rebalance_plan(cluster)
    cluster.polls_to_move = ENDLESS
    running = begun(movements, kit, plan)
    eventually(lambda: cluster.most_at_once > 0, "partitions are on the way")
    running.interrupt(ORDERLY)
    assert running.standing().interrupts == ORDERLY
    cluster.polls_to_move = 1
    running.join(10)
    result = running.standing().result
    assert result.cancelled == []
    assert len(result.moved) == cluster.most_at_once
    assert len(result.not_begun) == len(plan.targets) - len(result.moved)


def test_a_cluster_that_goes_away_ends_a_movement_with_a_reason(cluster, kit):
    movements, plan = Movements(), rebalance_plan(cluster)
    cluster.polls_to_move = ENDLESS
    running = begun(movements, kit, plan, throttle=1)
    eventually(lambda: cluster.most_at_once > 0, "partitions are on the way")
    cluster.is_gone = True
    running.join(10)
    problem = running.standing().problem
    assert problem.startswith(
        "cannot reach the cluster. throttles were not removed; `ottla cluster reassign --verify`"
    )


def test_plans_are_kept_in_bounded_number(cluster, kit):
    movements, plan = Movements(), rebalance_plan(cluster)
    first = movements.keep("prod", plan)
    for number in range(PLANS_MAX):
        movements.keep(f"cluster-{number}", plan)
    with pytest.raises(OperationError, match="the plan is not kept any more"):
        movements.begin(kit, first, "", None)
