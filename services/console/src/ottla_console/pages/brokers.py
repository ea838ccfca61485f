"""The brokers with their load, and one of them: its log directories and replicas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.visit import NotFound, Visit
from ottla_console.views.broker_table import broker_rows, held_rows
from ottla_console.views.paging import page_number, page_of
from ottla_console.views.preferred_elections import elections
from ottla_operations.cluster.cluster_view import BrokerView, LogDirectoryView, ReplicaOnDisk


@dataclass(frozen=True, slots=True)
class _Disks:
    """What a broker tells of its disks; None where it does not answer."""

    directories: Sequence[LogDirectoryView] | None = None
    copies: Sequence[ReplicaOnDisk] | None = None


async def brokers(visit: Visit) -> Response:
    """Show all brokers; rates and sizes are those of the newest look."""
    watch = visit.watch
    view = await watch.view.get()
    return visit.render(
        "brokers.html",
        rows=broker_rows(view, watch.activity()),
        not_preferred=len(elections(view)),
        problem=watch.sample_problem,
    )


async def broker(visit: Visit) -> Response:
    """Show one broker."""
    text = visit.request.path_params["broker"]
    view = await visit.watch.view.get()
    rows = broker_rows(view, visit.watch.activity())
    row = next((each for each in rows if str(each.broker) == text), None)
    if row is None:
        raise NotFound(f"there is no broker {text} in {visit.cluster.name}, and no partition counts on one")
    known = view.brokers.get(row.broker)
    disks = _Disks() if known is None else await visit.ask(lambda kit: _disks(kit, known))
    words = visit.query("q")
    held = held_rows(view, row.broker, disks.copies, words)
    return visit.render(
        "broker.html",
        broker=row,
        directories=disks.directories,
        q=words,
        shown=page_of(held, page_number(visit.query("page", "1"))),
    )


def _disks(kit: ClusterKit, known: BrokerView) -> _Disks:
    with kit.cluster_admin() as admin:
        return _Disks(admin.log_directories([known]).get(known.id), admin.disks([known]).get(known.id))


VIEWS: Final = (
    View("/brokers", brokers, "brokers"),
    View("/brokers/{broker:segment}", broker, "brokers"),
)
