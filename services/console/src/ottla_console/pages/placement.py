"""Who has which replicas: evening them out, and emptying a broker. The plan is shown first, and that one is begun."""

from collections.abc import Callable
from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, NotFound, Visit
from ottla_console.views.movement_table import change_rows, throttle_bytes
from ottla_console.views.paging import page_number, page_of
from ottla_operations.cluster.cluster_admin import ClusterAdmin
from ottla_operations.cluster.movement_plan import (
    MovementPlan,
    absent_brokers,
    check_nothing_moves,
    departure_plan,
    rebalance_plan,
)
from ottla_operations.errors import OperationError

PLAN_WITHIN_S: Final = 60.0
"""A plan for thousands of partitions is made of what all brokers have on their disks."""
BROKER_ID_DIGITS_MAX: Final = 9


async def preview_rebalance(visit: Visit) -> Response:
    """Show what would be moved to even out replicas, leaders and disks."""
    return await _preview(
        visit, rebalance_plan, title="Rebalance", nothing="Replicas, leaders and disks are even.", broker=None
    )


async def rebalance(visit: Visit) -> Response:
    """Begin a rebalance that was shown."""
    return await _begin(visit, "cluster.rebalance", visit.cluster.name, "Evening out replicas", needed=None)


async def preview_departure(visit: Visit) -> Response:
    """Show what would be moved off a broker."""
    broker = _broker(visit)
    view = await visit.watch.view.get()
    if broker not in view.brokers and broker not in absent_brokers(view):
        return visit.render("broker_gone.html", broker=broker)
    return await _preview(
        visit,
        lambda admin: departure_plan(admin, broker),
        title=f"Decommission broker {broker}",
        nothing=f"Broker {broker} has no replicas. Stop it, then this page can have the cluster forget it.",
        broker=broker,
    )


async def depart(visit: Visit) -> Response:
    """Begin to empty a broker whose id was typed."""
    broker = _broker(visit)
    return await _begin(
        visit, "broker.decommission", str(broker), f"Decommissioning broker {broker}", needed=str(broker)
    )


async def unregister(visit: Visit) -> Response:
    """Have the cluster forget a broker that is stopped and has no replicas."""
    broker = _broker(visit)

    def effect(kit: ClusterKit) -> None:
        with kit.cluster_admin() as admin:
            view = admin.view()
            if broker in view.brokers or broker in absent_brokers(view):
                raise OperationError(f"broker {broker} is in service or has replicas, so it was not forgotten")
            admin.unregister(broker)

    await visit.act("broker.unregister", str(broker), lambda: visit.ask(effect), needed=str(broker))
    return visit.redirect(visit.address("brokers"), notice=f"The cluster has forgotten broker {broker}.")


async def _preview(
    visit: Visit,
    planned: Callable[[ClusterAdmin], MovementPlan],
    *,
    title: str,
    nothing: str,
    broker: int | None,
) -> Response:
    def question(kit: ClusterKit) -> MovementPlan:
        with kit.cluster_admin() as admin:
            check_nothing_moves(admin)
            return planned(admin)

    segments = ("rebalance",) if broker is None else ("brokers", str(broker), "decommission")
    try:
        plan = await visit.ask(question, within_s=PLAN_WITHIN_S)
    except OperationError as error:
        return visit.render(
            "movement_plan.html", title=title, broker=broker, problem=str(error), absent=(), shown=None, status=409
        )
    return visit.render(
        "movement_plan.html",
        title=title,
        broker=broker,
        problem=None,
        nothing=nothing,
        action=visit.address(*segments),
        summary=plan.summary(),
        in_service=plan.view.brokers,
        absent=absent_brokers(plan.view) if broker is None else (),
        shown=page_of(change_rows(plan), page_number(visit.query("page", "1"))),
        plan=visit.console.movements.keep(visit.cluster.name, plan),
    )


async def _begin(visit: Visit, action: str, target: str, title: str, *, needed: str | None) -> Response:
    try:
        bytes_per_second = throttle_bytes(visit.form.get("throttle", ""))
    except ValueError as error:
        raise BadForm(str(error)) from None
    digest, movements = visit.form.get("plan", ""), visit.console.movements

    def effect(kit: ClusterKit) -> None:
        movements.begin(kit, digest, title, bytes_per_second)

    await visit.act(action, target, lambda: visit.ask(effect), needed=needed, bytes_per_second=bytes_per_second)
    return visit.redirect(visit.address("moves"))


def _broker(visit: Visit) -> int:
    text = visit.request.path_params["broker"]
    if not (text.isascii() and text.isdigit() and len(text) <= BROKER_ID_DIGITS_MAX):
        raise NotFound(f"there is no broker {text} in {visit.cluster.name}; ids of brokers are numbers")
    return int(text)


VIEWS: Final = (
    View("/rebalance", preview_rebalance, "brokers"),
    View("/rebalance", rebalance, "brokers", method="POST"),
    View("/brokers/{broker:segment}/decommission", preview_departure, "brokers"),
    View("/brokers/{broker:segment}/decommission", depart, "brokers", method="POST"),
    View("/brokers/{broker:segment}/unregister", unregister, "brokers", method="POST"),
)
