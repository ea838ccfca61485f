"""One group: its members with what they read, and how far it has yet to read; deleting it."""

import time
from dataclasses import dataclass
from typing import Final

from confluent_kafka.admin import OffsetSpec
from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.visit import NotFound, Visit
from ottla_console.views.group_partitions import LagRow, known_lag, lag_rows, member_rows
from ottla_console.views.group_table import state_grade
from ottla_console.views.paging import page_number, page_of
from ottla_operations.groups.changes import delete_group
from ottla_operations.groups.inspection import Group, NoSuchGroup, committed_offsets, describe_group, log_offsets


@dataclass(frozen=True, slots=True)
class _Standing:
    """A group and its partitions."""

    group: Group
    rows: list[LagRow]


async def show(visit: Visit) -> Response:
    """Show the members of a group, and its lag by partition."""
    name = visit.request.path_params["group"]
    try:
        found = await visit.ask(lambda kit: _standing(kit, name))
    except NoSuchGroup:
        raise NotFound(
            f"there is no group {name} in {visit.cluster.name}; a group is there once a member or an offset is"
        ) from None
    # Only now, as metrics tell of all groups, also of those that the cluster does not show to this user.
    told = await visit.watch.lag_seconds.get()
    seconds = {topic: each for (group, topic), each in told.items() if group == name}
    lag = known_lag(found.rows)
    history = visit.watch.lag_histories
    history.note(name, time.time(), lag, max(seconds.values(), default=None))
    return visit.render(
        "group.html",
        seconds=seconds,
        charts=history.charts(name),
        group=found.group,
        grade=state_grade(found.group.state),
        lag=lag,
        members=page_of(member_rows(found.group), page_number(visit.query("members", "1"))),
        shown=page_of(found.rows, page_number(visit.query("page", "1"))),
    )


async def delete(visit: Visit) -> Response:
    """Delete a group whose name was typed."""
    name = visit.request.path_params["group"]

    def effect(kit: ClusterKit) -> None:
        with kit.group_client() as client:
            delete_group(client, name, kit.settings.bootstrap)

    await visit.act("group.delete", name, lambda: visit.ask(effect), needed=name)
    return visit.redirect(visit.address("groups"), notice=f"Group {name} was deleted.")


def _standing(kit: ClusterKit, name: str) -> _Standing:
    bootstrap = kit.settings.bootstrap
    with kit.group_client() as client:
        group = describe_group(client, name, bootstrap)
        committed = committed_offsets(client, name, bootstrap)
        places = {*committed, *group.owners()}
        ends = log_offsets(client, places, OffsetSpec.latest(), bootstrap, all_led=False)  # type: ignore[no-untyped-call]
    return _Standing(group, lag_rows(group, committed, ends))


VIEWS: Final = (
    View("/groups/{group:segment}", show, "groups"),
    View("/groups/{group:segment}/delete", delete, "groups", method="POST"),
)
