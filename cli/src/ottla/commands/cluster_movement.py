"""What the commands that move partitions share: showing a plan, asking, moving, and the result."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from ottla.cluster.interrupts import Interrupts
from ottla.cluster.movement_display import MovementDisplay
from ottla.output import note, print_json, print_table
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import ClusterView, Replicas
from ottla_operations.cluster.movement import Movement, Result
from ottla_operations.cluster.plan_summary import PlanSummary, change_rows, summarize
from ottla_operations.quantities import counted, human_bytes

if TYPE_CHECKING:
    from ottla_operations.cluster.cluster_admin import ClusterAdmin

EXIT_INTERRUPTED = 130


def show_plan(view: ClusterView, summary: PlanSummary, sizes: Mapping[TopicPartition, int]) -> None:
    """Print a plan for people: every partition that changes, and what each broker has before and after."""
    print_table(
        ["partition", "replicas", "new replicas", "size of a replica#", "to copy#"],
        [
            (name, before, after, human_bytes(size), copies)
            for name, before, after, size, copies in change_rows(view, summary, sizes)
        ],
    )
    print_table(
        ["broker#", "rack", "replicas#", "→#", "leaders#", "→#", "disk#", "→#"],
        [
            (
                broker,
                view.brokers[broker].rack if broker in view.brokers else "(away)",
                *(before.replicas, after.replicas, before.leaders, after.leaders),
                *(human_bytes(before.size_bytes), human_bytes(after.size_bytes)),
            )
            for broker, before in summary.before.items()
            for after in [summary.after[broker]]
        ],
    )
    print(
        f"{counted(len(summary.targets), 'partition')} to change: {counted(summary.copies, 'replica')} to copy "
        f"({human_bytes(summary.copied_bytes)}), {counted(summary.leader_changes, 'preferred leader')}",
        flush=True,
    )


def is_agreed(*, yes: bool) -> bool:
    """Return whether to go on: as asked at a terminal, and elsewhere only if `--yes` was given."""
    if yes:
        return True
    if not sys.stdin.isatty():
        note("Nothing was moved; --yes carries the plan out.")
        return False
    return typer.confirm("Move them?", err=True)


def carry_out(
    admin: "ClusterAdmin",
    view: ClusterView,
    targets: Mapping[TopicPartition, Replicas],
    sizes: Mapping[TopicPartition, int],
    *,
    parallel: int,
    throttle: int | None,
) -> Result:
    """Move partitions and show how far it is."""
    movement = Movement(admin, view, targets, sizes, parallel=parallel)
    size_bytes = summarize(view, targets, sizes).copied_bytes
    with MovementDisplay(len(targets), size_bytes) as display, Interrupts() as interrupts:
        return movement.run(interrupts, display, bytes_per_second=throttle)


def result_document(result: Result) -> dict[str, Any]:
    """Return how a plan ended, as JSON values."""
    return {
        "moved": [str(name) for name in result.moved],
        "failed": {str(name): reason for name, reason in result.failed.items()},
        "cancelled": [str(name) for name in result.cancelled],
        "not_begun": [str(name) for name in result.not_begun],
    }


def finish(result: Result, *, as_json: bool, extra: Mapping[str, Any] | None = None) -> None:
    """Print how a plan ended, and end the command unless all was moved."""
    if as_json:
        print_json({**(extra or {}), **result_document(result)})
    else:
        print(f"moved {counted(len(result.moved), 'partition')}", flush=True)
    for name, reason in result.failed.items():
        note(f"ottla: {name} was not moved: {reason}")
    if result.cancelled or result.not_begun:
        note(
            f"ottla: interrupted: {counted(len(result.moved), 'partition')} moved, "
            f"{counted(len(result.cancelled), 'partition')} cancelled and where they were, "
            f"{len(result.not_begun)} not begun; the same command goes on from here"
        )
        raise typer.Exit(EXIT_INTERRUPTED)
    if result.failed:
        raise typer.Exit(1)
