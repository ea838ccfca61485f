"""Moves of replicas that are under way, whoever began them; the console's own movement; ending them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.movements import RunningMovement
from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.movement_table import ended_words, left_bytes, move_rows
from ottla_console.views.paging import page_number, page_of
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_admin import ClusterAdmin
from ottla_operations.cluster.cluster_view import ClusterView, Disks, Move
from ottla_operations.cluster.movement import AT_ONCE, ORDERLY
from ottla_operations.errors import OperationError

END_WITHIN_S: Final = 8.0
NO_REASSIGNMENT_IN_PROGRESS: Final = 85
"""Kafka's error code for a move that had arrived before it was cancelled."""
FAILURES_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """What is being moved."""

    moves: Mapping[TopicPartition, Move]
    view: ClusterView
    disks: Disks


async def show(visit: Visit) -> Response:
    """Show what is being moved, and how far the console's own movement is."""
    found = await visit.ask(_under_way)
    rows = move_rows(found.moves, found.view, found.disks)
    running = visit.console.movements.of(visit.cluster.name)
    standing = running.standing() if running is not None else None
    result = standing.result if standing is not None else None
    is_own = standing is not None and standing.user == visit.user
    failed = sorted(result.failed.items()) if result is not None and is_own else []
    return visit.render(
        "moves.html",
        shown=page_of(rows, page_number(visit.query("page", "1"))),
        left=left_bytes(rows),
        standing=standing,
        is_own=is_own,
        ended=ended_words(result, standing.problem) if standing is not None and result is not None else None,
        failed=failed[:FAILURES_SHOWN_MAX],
        failures_more=max(0, len(failed) - FAILURES_SHOWN_MAX),
    )


async def finish(visit: Visit) -> Response:
    """Have the console begin no more moves of its own."""
    movements, name = visit.console.movements, visit.cluster.name

    async def effect() -> None:
        running = movements.of(name)
        if running is None or not running.is_going_on:
            raise OperationError("nothing was stopped: the console is not carrying out a plan any more")
        if running.standing().user != visit.user:
            raise OperationError("nothing was stopped: somebody else began this; you can cancel what is being moved")
        running.interrupt(ORDERLY)

    await visit.act("moves.begin-no-more", name, effect)
    return visit.redirect(visit.address("moves"), notice="No more moves are begun.")


async def cancel(visit: Visit) -> Response:
    """Cancel every move that is under way."""
    running = visit.console.movements.of(visit.cluster.name)
    going_on = running if running is not None and running.is_going_on else None
    await visit.act(
        "moves.cancel",
        visit.cluster.name,
        lambda: visit.ask(lambda kit: _cancel(kit, going_on), within_s=2 * END_WITHIN_S),
    )
    return visit.redirect(visit.address("moves"), notice="What was being moved is cancelled.")


def _under_way(kit: ClusterKit) -> _UnderWay:
    with kit.cluster_admin() as admin:
        moves = admin.moves()
        view = admin.view()
        involved = {broker for each in moves.values() for broker in each.replicas}
        disks = admin.disks(view.brokers[broker] for broker in sorted(involved) if broker in view.brokers)
        return _UnderWay(moves, view, disks)


def _cancel(kit: ClusterKit, running: RunningMovement | None) -> None:
    """Cancel all moves; the console's movement is ended by whoever began it, or may cancel its moves."""
    is_own = running is not None and running.standing().user == kit.user
    if running is not None and is_own:
        running.interrupt(AT_ONCE)
        running.join(END_WITHIN_S)
    with kit.cluster_admin() as admin:
        cancelled = _cancel_moves(admin)
    if running is not None and not is_own:
        if not cancelled:
            raise OperationError("nothing is being moved at this moment; try again")
        running.interrupt(AT_ONCE)


def _cancel_moves(admin: ClusterAdmin) -> int:
    """Return how many moves were cancelled."""
    moves = admin.moves()
    if not moves:
        return 0
    outcomes = admin.reassign(dict.fromkeys(moves))
    refused = {
        name: each for name, each in outcomes.items() if each is not None and each.code != NO_REASSIGNMENT_IN_PROGRESS
    }
    if refused:
        name, refusal = min(refused.items(), key=lambda item: item[0])
        raise OperationError(f"{len(refused):,} moves were not cancelled, the first of {name}: {refusal.message}")
    return sum(each is None for each in outcomes.values())


VIEWS: Final = (
    View("/moves", show, "brokers"),
    View("/moves/begin-no-more", finish, "brokers", method="POST"),
    View("/moves/cancel", cancel, "brokers", method="POST"),
)
