"""`ottla cluster rebalance` and `ottla cluster decommission`: planning who has what, and moving it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cluster.cluster_connection import cluster_admin
from ottla.cluster.interrupts import Interrupts
from ottla.commands.cluster_movement import (
    EXIT_INTERRUPTED,
    carry_out,
    finish,
    is_agreed,
    show_plan,
)
from ottla.commands.movement_options import PARALLEL_DEFAULT, Parallel, Throttle
from ottla.confirmation import Yes
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json
from ottla.output import note, print_json
from ottla_operations.cluster.cluster_view import ClusterView, describe_replicas
from ottla_operations.cluster.movement_plan import (
    absent_brokers,
    check_nothing_moves,
    departure_plan,
    rebalance_plan,
)
from ottla_operations.errors import OperationError
from ottla_operations.quantities import counted

if TYPE_CHECKING:
    from ottla_operations.cluster.cluster_admin import ClusterAdmin

DEPARTURE_ROUNDS_MAX = 5
"""Topics that are created while a broker is emptied may get replicas on it, so it is looked at again."""
GONE_POLL_S = 0.5


def rebalance(
    *,
    throttle: Throttle = None,
    parallel: Parallel = PARALLEL_DEFAULT,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Even out replicas, leaders and disk over brokers and racks, with few moves.

    Shows what it would move and asks; without a terminal it moves only with --yes. The first Ctrl-C waits for the
    partitions that are being moved and begins no more, the second one cancels them. Either way each partition is
    wholly at its old or its new place, and the throttle is gone.

    [bold]Examples[/bold]

      ottla cluster rebalance

      ottla cluster rebalance --yes --throttle 50000000

      ottla cluster rebalance --json                          the plan, and nothing is moved
    """
    with cluster_admin(bootstrap, properties) as admin:
        check_nothing_moves(admin)
        plan = rebalance_plan(admin)
        view, targets, sizes, summary = plan.view, plan.targets, plan.sizes, plan.summary()
        _note_absent(view)
        if not as_json:
            if not targets:
                print("nothing to do: replicas, leaders and disks are even")
                return
            show_plan(view, summary, sizes)
        if not targets or (as_json and not yes):
            print_json(summary.to_document())
            return
        if is_agreed(yes=yes):
            result = carry_out(admin, view, targets, sizes, parallel=parallel, throttle=throttle)
            finish(result, as_json=as_json, extra=summary.to_document())


def decommission(
    *,
    broker: Annotated[int, typer.Argument(min=0, metavar="BROKER", help="The id of the broker that is to go.")],
    unregister: Annotated[
        bool, typer.Option("--unregister", help="Then wait until it is stopped, and make the cluster forget it.")
    ] = False,
    throttle: Throttle = None,
    parallel: Parallel = PARALLEL_DEFAULT,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Move everything off a broker, so that it can be stopped for good.

    Works for a broker that is lost as well, whose partitions are then copied from their other replicas. Shows what it
    would move and asks; Ctrl-C is as in `ottla cluster rebalance`. Keep new topics away until the broker is stopped.

    [bold]Examples[/bold]

      ottla cluster decommission 3

      ottla cluster decommission 3 --yes --throttle 50000000

      ottla cluster decommission 3 --yes --unregister
    """
    with cluster_admin(bootstrap, properties) as admin:
        check_nothing_moves(admin)
        _check_known(admin.view(), broker, unregister=unregister)
        moved: list[str] = []
        if not _empty(admin, broker, moved, Moving(throttle, parallel, yes=yes, as_json=as_json)):
            return
        if not as_json:
            _tell_empty(admin, broker, len(moved), unregister=unregister)
        if unregister:
            _unregister_when_gone(admin, broker)
            if not as_json:
                print(f"unregistered broker {broker}")
        if as_json:
            print_json({"broker": broker, "moved": moved, "empty": True, "unregistered": unregister})


@dataclass(frozen=True, slots=True)
class Moving:
    """How partitions are to be moved."""

    throttle: int | None
    parallel: int
    yes: bool
    as_json: bool


def _empty(admin: "ClusterAdmin", broker: int, moved: list[str], how: Moving) -> bool:
    """Move everything off a broker, and add what was moved; return whether that was agreed to.

    Raises:
        OperationError: there is nowhere to move something to.
        typer.Exit: not everything could be moved; that was told.
    """
    for attempt in range(DEPARTURE_ROUNDS_MAX):
        plan = departure_plan(admin, broker)
        view, targets, sizes = plan.view, plan.targets, plan.sizes
        if not targets:
            return True
        if attempt == 0:
            summary = plan.summary()
            if not how.as_json:
                show_plan(view, summary, sizes)
            elif not how.yes:
                print_json(summary.to_document())
                return False
            if not is_agreed(yes=how.yes):
                return False
        result = carry_out(admin, view, targets, sizes, parallel=how.parallel, throttle=how.throttle)
        if len(result.moved) < len(targets):
            finish(result, as_json=how.as_json)
            raise typer.Exit(1)
        moved += [str(name) for name in result.moved]
    raise OperationError(f"broker {broker} gets new partitions all the time; keep new topics away, and try again")


def _check_known(view: ClusterView, broker: int, *, unregister: bool) -> None:
    if broker in view.brokers or any(broker in partition.replicas for partition in view.partitions.values()):
        return
    if not unregister:
        raise OperationError(
            f"there is no broker {broker} in service, and no partition has a replica on it; "
            f"brokers are {describe_replicas(view.brokers)}"
        )


def _tell_empty(admin: "ClusterAdmin", broker: int, moved: int, *, unregister: bool) -> None:
    print(f"moved {counted(moved, 'partition')}; broker {broker} has no replicas any more", flush=True)
    if broker not in admin.view().brokers:
        if not unregister:
            print(
                f"it is not running; `ottla cluster decommission {broker} --unregister` makes the cluster forget it"
            )
    elif not unregister:
        print(
            f"it can be stopped; then `ottla cluster decommission {broker} --unregister` makes the cluster forget it"
        )


def _unregister_when_gone(admin: "ClusterAdmin", broker: int) -> None:
    with Interrupts() as interrupts:
        if broker in admin.view().brokers:
            note(f"Stop broker {broker} now; waiting until it is gone…")
        while broker in (view := admin.view()).brokers:
            interrupts.wait(GONE_POLL_S)
            if interrupts.count:
                note(f"ottla: broker {broker} still runs and was not unregistered")
                raise typer.Exit(EXIT_INTERRUPTED)
    if any(broker in partition.replicas for partition in view.partitions.values()):
        raise OperationError(f"broker {broker} was given partitions before it stopped; decommission it again")
    admin.unregister(broker)


def _note_absent(view: ClusterView) -> None:
    if absent := absent_brokers(view):
        note(
            f"Broker {describe_replicas(absent)} is away and is left out of this; its replicas stay as they are. "
            "`ottla cluster decommission` gives its replicas to others if it does not come back."
        )
