"""`ottla cluster reassign`: moving chosen partitions to chosen brokers, by a plan or one by one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cluster.cluster_connection import cluster_admin
from ottla.commands.cluster_movement import (
    carry_out,
    finish,
    is_agreed,
    show_plan,
)
from ottla.commands.movement_options import PARALLEL_DEFAULT, Parallel, Throttle
from ottla.confirmation import Yes
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json
from ottla.output import note, print_json, print_table
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import Replicas, describe_replicas, partition_sizes
from ottla_operations.cluster.description import describe_move
from ottla_operations.cluster.plan_summary import summarize
from ottla_operations.cluster.reassignment_plan import (
    BadPlan,
    Plan,
    check_brokers,
    check_distinct,
    check_partitions,
    parse_plan,
    standing,
)
from ottla_operations.cluster.throttles import throttle_removal
from ottla_operations.errors import OperationError, UsageProblem

if TYPE_CHECKING:
    from ottla_operations.cluster.cluster_admin import ClusterAdmin

PlanFile = Annotated[
    Path | None, typer.Argument(metavar="[PLAN]", help="A file as kafka-reassign-partitions takes it: JSON.")
]
Topic = Annotated[str | None, typer.Option(help="Instead of a plan: the topic.")]
Partition = Annotated[int | None, typer.Option("--partition", "-p", min=0, help="And its partition.")]
NewReplicas = Annotated[
    str | None,
    typer.Option("--replicas", metavar="ID[,…]", help="And its new brokers, the preferred leader first."),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="Tell how far the plan is; if nothing moves any more, remove throttles.")
]
ListMoves = Annotated[bool, typer.Option("--list", help="List what is being moved.")]
Cancel = Annotated[bool, typer.Option("--cancel", help="Undo what has not arrived yet: of the plan, or everything.")]


def reassign(
    *,
    plan_file: PlanFile = None,
    topic: Topic = None,
    partition: Partition = None,
    replicas: NewReplicas = None,
    verify: Verify = False,
    list_moves: ListMoves = False,
    cancel: Cancel = False,
    throttle: Throttle = None,
    parallel: Parallel = PARALLEL_DEFAULT,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Move partitions to other brokers, or give them more or fewer replicas.

    Shows what it would move and asks. Ctrl-C is as in `ottla cluster rebalance`.

    [bold]Examples[/bold]

      ottla cluster reassign plan.json --throttle 50000000

      ottla cluster reassign --topic flights --partition 0 --replicas 1,2,3 --yes

      ottla cluster reassign plan.json --verify

      ottla cluster reassign --list

      ottla cluster reassign --cancel
    """
    if verify + list_moves + cancel > 1:
        raise UsageProblem("--verify, --list and --cancel exclude each other")
    with cluster_admin(bootstrap, properties) as admin:
        if list_moves:
            _list(admin, as_json=as_json)
        elif cancel:
            _cancel(admin, _named(plan_file, topic, partition), as_json=as_json)
        else:
            plan = _read_plan(plan_file, topic, partition, replicas)
            if verify:
                _verify(admin, plan, as_json=as_json)
            else:
                _carry_out(admin, plan, parallel=parallel, throttle=throttle, yes=yes, as_json=as_json)


def _carry_out(
    admin: "ClusterAdmin", plan: Plan, *, parallel: int, throttle: int | None, yes: bool, as_json: bool
) -> None:
    view = admin.view()
    try:
        check_partitions(plan, view)
        check_brokers(plan, view)
    except BadPlan as error:
        raise OperationError(f"the plan does not fit this cluster: {error}") from None
    sizes = partition_sizes(admin.disks(view.brokers.values()))
    targets = {name: target for name, target in plan.items() if view.partitions[name].replicas != target}
    moves = admin.moves()
    if busy := sorted(name for name in plan if name in moves):
        raise OperationError(f"{busy[0]} is being moved already; wait, or cancel that with --cancel")
    summary = summarize(view, targets, sizes)
    if not as_json and targets:
        show_plan(view, summary, sizes)
    if as_json and not yes:
        print_json(summary.to_document())
        return
    if not targets or is_agreed(yes=yes):
        result = carry_out(admin, view, targets, sizes, parallel=parallel, throttle=throttle)
        finish(result, as_json=as_json, extra=summary.to_document())


def _verify(admin: "ClusterAdmin", plan: Plan, *, as_json: bool) -> None:
    """Tell of each partition whether it has arrived; exit code 1 unless all have."""
    moves, view = admin.moves(), admin.view()
    standings = {name: standing(name, target, view, moves) for name, target in sorted(plan.items())}
    if not moves:
        topics = sorted({name.topic for name in plan if name.topic in view.topics})
        admin.alter_configs(throttle_removal(topics, view.brokers))
    if as_json:
        print_json([_standing_document(name, plan[name], problem) for name, problem in standings.items()])
    else:
        for name, problem in standings.items():
            print(f"{name} " + (problem or f"is on {describe_replicas(plan[name])}"))
    if any(problem is not None for problem in standings.values()):
        raise typer.Exit(1)


def _standing_document(name: TopicPartition, target: Replicas, problem: str | None) -> dict[str, Any]:
    return {
        "topic": name.topic,
        "partition": name.partition,
        "replicas": list(target),
        "arrived": problem is None,
        "problem": problem,
    }


def _list(admin: "ClusterAdmin", *, as_json: bool) -> None:
    moves = sorted(admin.moves().items())
    if as_json:
        print_json([describe_move(name, move) for name, move in moves])
    elif not moves:
        print("nothing is being moved")
    else:
        print_table(
            ["topic", "partition#", "replicas", "adding", "removing"],
            [
                (
                    name.topic, name.partition, describe_replicas(move.replicas), describe_replicas(move.adding),
                    describe_replicas(move.removing),
                )
                for name, move in moves
            ],
        )  # fmt: skip


def _cancel(admin: "ClusterAdmin", names: Sequence[TopicPartition] | None, *, as_json: bool) -> None:
    moves = admin.moves()
    chosen = sorted(moves) if names is None else [name for name in names if name in moves]
    outcomes = admin.reassign(dict.fromkeys(chosen)) if chosen else {}
    _remove_throttles(admin, chosen)
    failed = {name: refusal.message for name, refusal in outcomes.items() if refusal is not None}
    cancelled = [str(name) for name in chosen if name not in failed]
    if as_json:
        print_json({"cancelled": cancelled, "failed": {str(name): why for name, why in failed.items()}})
    else:
        print(f"cancelled {len(cancelled)} of {len(chosen)} moves" if chosen else "nothing is being moved")
    for name, reason in failed.items():
        note(f"ottla: the move of {name} was not cancelled: {reason}")
    if failed:
        raise typer.Exit(1)


def _remove_throttles(admin: "ClusterAdmin", cancelled: Sequence[TopicPartition]) -> None:
    """Take throttles away where nothing is left to be throttled."""
    still_moving = {name.topic for name in admin.moves() if name not in cancelled}
    if not still_moving:
        admin.alter_configs(throttle_removal(sorted({name.topic for name in cancelled}), admin.view().brokers))


def _named(plan_file: Path | None, topic: str | None, partition: int | None) -> list[TopicPartition] | None:
    """Return the partitions that are meant, or None for all."""
    if plan_file is not None:
        return sorted(_read_file(plan_file))
    if topic is None and partition is None:
        return None
    if topic is None or partition is None:
        raise UsageProblem("--topic and --partition go together")
    return [TopicPartition(topic, partition)]


def _read_plan(plan_file: Path | None, topic: str | None, partition: int | None, replicas: str | None) -> Plan:
    if plan_file is not None:
        if topic is not None or partition is not None or replicas is not None:
            raise UsageProblem("give a plan, or --topic with --partition and --replicas, but not both")
        return _read_file(plan_file)
    if topic is None or partition is None or replicas is None:
        raise UsageProblem("say what to move: a plan, or --topic with --partition and --replicas")
    try:
        brokers = tuple(int(each) for each in replicas.split(","))
        check_distinct(TopicPartition(topic, partition), brokers)
    except BadPlan as error:
        raise UsageProblem(f"--replicas {replicas}: {error}") from None
    except ValueError:
        raise UsageProblem(f"--replicas {replicas}: write broker ids as in 1,2,3") from None
    return {TopicPartition(topic, partition): brokers}


def _read_file(plan_file: Path) -> Plan:
    try:
        return parse_plan(plan_file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise OperationError(f"cannot read {plan_file}: {reason}") from None
    except BadPlan as error:
        raise OperationError(f"{plan_file} is no plan: {error}") from None
