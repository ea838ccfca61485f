"""Preferred elections: which partitions would be led by another broker is shown first, then carried out."""

from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.settling import wait_until_shown
from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.paging import page_number, page_of
from ottla_console.views.preferred_elections import elections, plan_digest, possible
from ottla_operations.cluster.cluster_view import ClusterView
from ottla_operations.errors import OperationError


async def preview(visit: Visit) -> Response:
    """Show the partitions that are not led by their preferred replica."""
    rows = elections(await visit.ask(_view))  # a plan is made from what there is now, not from what is kept
    return visit.render(
        "elections.html",
        shown=page_of(rows, page_number(visit.query("page", "1"))),
        possible=len(possible(rows)),
        plan=plan_digest(rows),
    )


async def elect(visit: Visit) -> Response:
    """Have the elections that were shown, unless the cluster has changed since."""
    plan = visit.form.get("plan", "")
    count = await visit.act(
        "cluster.elect-preferred-leaders", visit.cluster.name, lambda: visit.ask(lambda kit: _elect(kit, plan))
    )
    told = "1 partition is" if count == 1 else f"{count:,} partitions are"
    return visit.redirect(visit.address("brokers"), notice=f"{told} led by the preferred replica again.")


def _view(kit: ClusterKit) -> ClusterView:
    with kit.cluster_admin() as admin:
        return admin.view()


def _elect(kit: ClusterKit, plan: str) -> int:
    """Return how many leaders were elected."""
    with kit.cluster_admin() as admin:
        rows = elections(admin.view())
        wanted = {each.name: each.preferred for each in possible(rows)}
        if not wanted or plan_digest(rows) != plan:
            raise OperationError("nothing was changed: the leaders are others by now; look at the plan again")
        outcomes = admin.elect_leaders(list(wanted))
    failed = {name: each for name, each in outcomes.items() if each is not None and not each.is_needless}
    done = {name: broker for name, broker in wanted.items() if name not in failed}

    def is_shown(seen: ClusterView) -> bool:
        return all(name in seen.partitions and seen.partitions[name].leader == to for name, to in done.items())

    wait_until_shown(kit, is_shown)
    if failed:
        name, refusal = next(iter(failed.items()))
        raise OperationError(
            f"{len(failed):,} of {len(wanted):,} elections failed, "
            f"the first of {name.topic} partition {name.partition}: {refusal.message}"
        )
    return len(done)


VIEWS: Final = (
    View("/elections", preview, "brokers"),
    View("/elections", elect, "brokers", method="POST"),
)
