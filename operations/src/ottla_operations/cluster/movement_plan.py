"""Plans of moves for a cluster as it is now: evening it out, and emptying a broker.

What goes where is decided by `balance.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.balance import NoRoom, plan_balance, plan_departure
from ottla_operations.cluster.cluster_view import (
    BrokerView,
    ClusterView,
    Disks,
    Move,
    Replicas,
    describe_replicas,
    partition_sizes,
)
from ottla_operations.cluster.plan_summary import PlanSummary, summarize
from ottla_operations.errors import OperationError
from ottla_operations.quantities import counted


class PlanningAdmin(Protocol):
    """What of `ClusterAdmin` is needed."""

    def view(self) -> ClusterView: ...  # noqa: D102
    def moves(self) -> Mapping[TopicPartition, Move]: ...  # noqa: D102
    def disks(self, brokers: Iterable[BrokerView]) -> Disks: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class MovementPlan:
    """Which partitions are to get which replicas.

    Attributes:
        view: the cluster that the plan was made for.
        targets: the replicas of those that change.
        sizes: bytes of one copy of each partition.
    """

    view: ClusterView
    targets: Mapping[TopicPartition, Replicas]
    sizes: Mapping[TopicPartition, int]

    def summary(self) -> PlanSummary:
        """Return it in figures."""
        return summarize(self.view, self.targets, self.sizes)


def check_nothing_moves(admin: PlanningAdmin) -> None:
    """See that no reassignment is going on.

    Raises:
        OperationError: one is, so that a plan would be made for a placement that is just changing.
    """
    moves = admin.moves()
    if moves:
        raise OperationError(
            f"{counted(len(moves), 'partition')} {'is' if len(moves) == 1 else 'are'} being moved already, "
            f"for example {min(moves)}; see them with "
            "`ottla cluster reassign --list`, and wait, or cancel with --cancel"
        )


def rebalance_plan(admin: PlanningAdmin) -> MovementPlan:
    """Return what evens out replicas, leaders and disks; what is offline has nobody to be copied from, and stays."""
    view = admin.view()
    sizes = partition_sizes(admin.disks(view.brokers.values()))
    movable = {name: each.replicas for name, each in view.partitions.items() if each.leader is not None}
    return MovementPlan(view, plan_balance(view.racks, movable, sizes), sizes)


def departure_plan(admin: PlanningAdmin, broker: int) -> MovementPlan:
    """Return what takes every replica off a broker; no targets if there is none on it.

    Raises:
        OperationError: a partition there is offline, or has nowhere to go.
    """
    view = admin.view()
    sizes = partition_sizes(admin.disks(view.brokers.values()))
    for name, partition in view.partitions.items():
        if partition.leader is None and broker in partition.replicas:
            raise OperationError(
                f"{name} is offline, so it cannot be copied off broker {broker}; bring back one of the brokers "
                f"{describe_replicas(partition.replicas)}, or give it up with `ottla cluster elect-leaders --unclean`"
            )
    replicas = {name: partition.replicas for name, partition in view.partitions.items()}
    try:
        return MovementPlan(view, plan_departure(broker, view.racks, replicas, sizes), sizes)
    except NoRoom as problem:
        topics = sorted({name.topic for name in problem.partitions})
        staying = len(view.racks.keys() - {broker})
        raise OperationError(
            f"{', '.join(topics)} cannot do without broker {broker}: a partition has {problem.copies} replicas, and "
            f"{staying} brokers would be left; start another broker, or give these topics fewer replicas with "
            f"`ottla topic alter {' '.join(topics)} --replication-factor {staying}`"
        ) from None


def check_still_fits(admin: PlanningAdmin, plan: MovementPlan) -> None:
    """See that a plan that was made before can be carried out now.

    Raises:
        OperationError: partitions of it have other replicas by now, are gone, or a broker is that they shall go to.
    """
    check_nothing_moves(admin)
    view = admin.view()
    for name, target in plan.targets.items():
        partition = view.partitions.get(name)
        if partition is None or partition.replicas != plan.view.partitions[name].replicas:
            raise OperationError(f"nothing was moved: {name} has other replicas by now; look at the plan again")
        gone = [broker for broker in target if broker not in view.brokers and broker not in partition.replicas]
        if gone:
            raise OperationError(
                f"nothing was moved: broker {describe_replicas(gone)} is gone by now; look at the plan again"
            )


def absent_brokers(view: ClusterView) -> list[int]:
    """Return the brokers that partitions have replicas on but that are not in service."""
    return sorted({each for partition in view.partitions.values() for each in partition.replicas} - set(view.brokers))
