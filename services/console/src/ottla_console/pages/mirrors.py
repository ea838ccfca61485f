"""Mirrors: the flows of mirror workers, and the links of a cluster of Ottla.

A flow is asked for and changed at the workers with what the console shows them (`rest.config`), whoever has signed
in; so who changes one has to be allowed to alter the cluster. Links are the cluster's own, which sees to rights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, NotFound, Visit
from ottla_console.views.mirror_table import (
    FlowRow,
    LinkRow,
    copy_rows,
    flow_rows,
    grade_of,
    link_rows,
    linked_partitions,
)
from ottla_console.views.paging import page_number, page_of
from ottla_core.client.links import alter_link, promote
from ottla_core.cluster.controller_rpc.link_api import DescribedLink, LinkChange, PartitionStatus
from ottla_operations.cluster.cluster_rights import check_may_alter
from ottla_operations.errors import OperationError
from ottla_operations.links.link_admin import LinkAdmin
from ottla_operations.links.link_standing import described_links, problem_lines, status_of_links
from ottla_operations.workers.mirror_client import MirrorClient, flow_path
from ottla_operations.workers.worker_client import Refused

WITHIN_S: Final = 30.0
PROBLEMS_SHOWN_MAX: Final = 50
NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a page: its rows, or why there are none."""

    rows: Sequence[Any] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _LinkStanding:
    """A link and its partitions."""

    described: DescribedLink
    row: LinkRow
    partitions: Sequence[PartitionStatus]
    problems: Sequence[str]
    silent_brokers: Sequence[int]


async def show(visit: Visit) -> Response:
    """Show the flows and the links."""
    flows, links = await visit.ask(lambda kit: (_flows(kit), _links(kit)), within_s=WITHIN_S)
    return visit.render("mirrors.html", flows=flows, links=links, has_workers=visit.cluster.mirror_url is not None)


async def flow(visit: Visit) -> Response:
    """Show a flow with the lag of each partition."""
    name = visit.request.path_params["flow"]
    row, lag = await visit.ask(lambda kit: _flow(kit, name), within_s=WITHIN_S)
    rows = copy_rows(lag)
    return visit.render(
        "mirror_flow.html",
        flow=row,
        lag=lag,
        unknown=sum(each.lag_records is None for each in rows),
        shown=page_of(rows, page_number(visit.query("page", "1"))),
    )


async def change_flow(visit: Visit) -> Response:
    """Pause a flow, or have it go on."""
    name = visit.request.path_params["flow"]
    action = _action(visit)

    def effect(kit: ClusterKit) -> None:
        with kit.cluster_admin() as admin:
            check_may_alter(admin, "changing a flow")
        _client(kit).ask("PUT", flow_path(name, action))

    await visit.act(f"mirror.{action}", name, lambda: visit.ask(effect, within_s=WITHIN_S))
    done = "is paused." if action == "pause" else "goes on."
    return visit.redirect(visit.address("mirrors", "flows", name), notice=f"{name} {done}")


async def link(visit: Visit) -> Response:
    """Show a link with the state of each partition."""
    name = visit.request.path_params["link"]
    found = await visit.ask(lambda kit: _link(kit, name), within_s=WITHIN_S)
    return visit.render(
        "mirror_link.html",
        link=found.row,
        described=found.described,
        problems=found.problems[:PROBLEMS_SHOWN_MAX],
        problems_more=max(0, len(found.problems) - PROBLEMS_SHOWN_MAX),
        silent=found.silent_brokers,
        grade=grade_of,
        shown=page_of(linked_partitions(found.partitions), page_number(visit.query("page", "1"))),
    )


async def change_link(visit: Visit) -> Response:
    """Pause a link, or have it go on."""
    name = visit.request.path_params["link"]
    action = _action(visit)
    change = LinkChange(name=name, paused=action == "pause")
    await visit.act(f"link.{action}", name, lambda: visit.ask(lambda kit: _links_of(kit).ask(alter_link(change))))
    done = "is paused." if action == "pause" else "goes on."
    return visit.redirect(visit.address("mirrors", "links", name), notice=f"Link {name} {done}")


async def promote_link(visit: Visit) -> Response:
    """Have the topics of a link follow no longer and take writes, once its name was typed."""
    name = visit.request.path_params["link"]

    def effect(kit: ClusterKit) -> tuple[int, int | None]:
        admin = _links_of(kit)
        lags = [each.lag for each in status_of_links(admin, [name]).partitions]
        promoted = admin.ask(promote(name))
        return len(promoted), None if any(lag < 0 for lag in lags) else sum(lags)

    count, left = await visit.act("link.promote", name, lambda: visit.ask(effect, within_s=WITHIN_S), needed=name)
    told = f"{count:,} partition{'' if count == 1 else 's'} of {name} take{'s' if count == 1 else ''} writes now"
    known = (
        "how many offsets of the source are not here is not known"
        if left is None
        else f"{left:,} offsets of the source were not here"
    )
    return visit.redirect(visit.address("mirrors", "links", name), notice=f"{told}; {known}.")


def _action(visit: Visit) -> str:
    action = visit.form.get("action", "")
    if action not in {"pause", "resume"}:
        raise BadForm("the form says neither pause nor resume")
    return action


def _client(kit: ClusterKit) -> MirrorClient:
    if kit.settings.mirror_url is None:
        raise NotFound(f"the console knows no mirror workers; cluster.{kit.settings.name}.mirror.url names them")
    return MirrorClient(kit.settings.mirror_url, kit.settings.rest_config)


def _flows(kit: ClusterKit) -> _Part:
    if kit.settings.mirror_url is None:
        return _Part()
    try:
        return _Part(flow_rows(_client(kit).get("/flows")))
    except OperationError as error:
        return _Part(problem=str(error))


def _flow(kit: ClusterKit, name: str) -> tuple[FlowRow, Mapping[str, Any]]:
    client = _client(kit)
    row = next((each for each in flow_rows(client.get("/flows")) if each.name == name), None)
    try:
        lag = client.get(flow_path(name, "lag")) if row is not None else None
    except Refused as error:
        if error.status != NOT_FOUND:
            raise
        row = lag = None
    if row is None or not isinstance(lag, dict):
        raise NotFound(f"the mirror workers have no flow {name}")
    return row, lag


def _links_of(kit: ClusterKit) -> LinkAdmin:
    return LinkAdmin(kit.settings.bootstrap, kit.config)


def _links(kit: ClusterKit) -> _Part:
    try:
        admin = _links_of(kit)
        links = described_links(admin, ())
        status = status_of_links(admin, ())
    except OperationError as error:
        return _Part(problem=str(error))
    return _Part(link_rows(links, status.partitions, status.keepings))


def _link(kit: ClusterKit, name: str) -> _LinkStanding:
    admin = _links_of(kit)
    described = next((each for each in described_links(admin, ()) if each.link.name == name), None)
    if described is None:
        raise NotFound(f"there is no link {name} in {kit.settings.name}")
    status = status_of_links(admin, [name])
    (row,) = link_rows([described], status.partitions, status.keepings)
    problems = [line for each in status.keepings for line in problem_lines(each)]
    return _LinkStanding(described, row, status.partitions, problems, status.silent_brokers)


VIEWS: Final = (
    View("/mirrors", show, "mirrors"),
    View("/mirrors/flows/{flow:segment}", flow, "mirrors"),
    View("/mirrors/flows/{flow:segment}", change_flow, "mirrors", method="POST"),
    View("/mirrors/links/{link:segment}", link, "mirrors"),
    View("/mirrors/links/{link:segment}", change_link, "mirrors", method="POST"),
    View("/mirrors/links/{link:segment}/promote", promote_link, "mirrors", method="POST"),
)
