"""`ottla topic alter --replication-factor`: more or fewer replicas of topics, planned, shown, and moved."""

from collections.abc import Iterable, Sequence

from ottla.cluster.cluster_connection import cluster_admin
from ottla.commands.cluster_movement import (
    carry_out,
    finish,
    is_agreed,
    show_plan,
)
from ottla.output import note, print_json
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import ClusterView, partition_sizes
from ottla_operations.cluster.movement_plan import check_nothing_moves
from ottla_operations.cluster.plan_summary import summarize
from ottla_operations.cluster.replication_factor import TooFewBrokers, plan_replication_factor
from ottla_operations.errors import OperationError
from ottla_operations.quantities import counted


def alter_replication_factor(
    topics: Sequence[str] | None,
    factor: int,
    *,
    dry_run: bool,
    throttle: int | None,
    parallel: int,
    yes: bool,
    bootstrap: str,
    properties: Sequence[str] | None,
    as_json: bool,
) -> None:
    """Give topics another number of replicas, after showing what that takes; None stands for all topics.

    Raises:
        OperationError: a topic is not there, or there are fewer brokers than that.
        typer.Exit: not everything was moved; that was told.
    """
    with cluster_admin(bootstrap, properties) as admin:
        check_nothing_moves(admin)
        view = admin.view()
        chosen = _movable(view, _chosen(view, topics))
        sizes = partition_sizes(admin.disks(view.brokers.values()))
        try:
            targets = plan_replication_factor(factor, chosen, view.racks, view.partitions, sizes)
        except TooFewBrokers as problem:
            raise OperationError(str(problem)) from None
        summary = summarize(view, targets, sizes)
        if not as_json:
            if not targets:
                print(f"nothing to do: {counted(len(chosen), 'partition')} with {counted(factor, 'replica')} each")
                return
            show_plan(view, summary, sizes)
        if not targets or (as_json and not yes) or dry_run:
            if as_json:
                print_json(summary.to_document())
            return
        if is_agreed(yes=yes):
            result = carry_out(admin, view, targets, sizes, parallel=parallel, throttle=throttle)
            finish(result, as_json=as_json, extra=summary.to_document())


def _chosen(view: ClusterView, topics: Sequence[str] | None) -> list[TopicPartition]:
    if topics is None:
        return list(view.partitions)
    missing = [topic for topic in topics if topic not in view.topics]
    if missing:
        raise OperationError(f"there is no topic {', '.join(missing)}")
    return [name for name in view.partitions if name.topic in topics]


def _movable(view: ClusterView, chosen: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that have a leader; what is offline has nobody to be copied from."""
    offline = [name for name in chosen if view.partitions[name].leader is None]
    if offline:
        note(
            f"ottla: {counted(len(offline), 'partition')} without a leader left out, for example {offline[0]}; "
            "`ottla cluster describe` shows them"
        )
    return [name for name in chosen if view.partitions[name].leader is not None]
