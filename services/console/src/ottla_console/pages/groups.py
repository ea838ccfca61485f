"""The list of groups. All are listed, and those of the page that is shown are asked for members and offsets."""

from dataclasses import dataclass
from typing import Final

from confluent_kafka.admin import OffsetSpec
from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.group_table import EVERY, GroupQuery, GroupRow, group_rows, selected_groups, states_of
from ottla_console.views.paging import PageOf, page_number, page_of
from ottla_operations.errors import OperationError
from ottla_operations.groups.inspection import Partition, list_groups, log_offsets
from ottla_operations.groups.several import standings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """A page of groups; `problems` are what could not be asked, a line each."""

    shown: PageOf[GroupRow]
    states: list[str]
    total: int
    problems: list[str]


async def groups(visit: Visit) -> Response:
    """Show a page of the groups that a query wants."""
    query = GroupQuery(words=visit.query("q"), state=visit.query("state", EVERY))
    number = page_number(visit.query("page", "1"))
    listing = await visit.ask(lambda kit: _listing(kit, query, number))
    return visit.render("groups.html", query=query, listing=listing, shown=listing.shown)


def _listing(kit: ClusterKit, query: GroupQuery, number: int) -> _Listing:
    bootstrap = kit.settings.bootstrap
    with kit.group_client() as client:
        every, problems = list_groups(client, bootstrap)
        page = page_of(selected_groups(every, query), number)
        found = standings(client, [each.group for each in page.items], bootstrap)
    ends: dict[Partition, int] = {}
    try:
        client = kit.admin_client()
        places = {place for each in found.values() for place in each.committed or ()}
        ends = log_offsets(client, places, OffsetSpec.latest(), bootstrap, all_led=False)  # type: ignore[no-untyped-call]
    except OperationError as error:  # lag is not known then; the groups are
        problems.append(str(error))
    rows = group_rows(page.items, found, ends)
    return _Listing(
        shown=PageOf(rows, page.number, page.pages, page.first, page.last, page.total),
        states=states_of(every),
        total=len(every),
        problems=problems,
    )


VIEWS: Final = (View("/groups", groups, "groups"),)
