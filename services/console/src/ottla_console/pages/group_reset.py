"""Other offsets for a group without members: the plan is shown at an address of its own, then carried out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, NotFound, Visit
from ottla_console.views.offset_reset_form import (
    PLANNED_MAX,
    TARGETS,
    ShownOffset,
    WantedReset,
    outdated,
    plan_text,
    selection_of,
    shown_plan,
    wanted_reset,
)
from ottla_console.views.paging import page_number, page_of
from ottla_console.views.topic_form import BadField
from ottla_operations.errors import OperationError
from ottla_operations.groups.changes import commit_offsets
from ottla_operations.groups.inspection import NoSuchGroup, describe_group
from ottla_operations.groups.known_offsets import known_offsets
from ottla_operations.groups.offset_reset import PlannedOffset, Reset, Target, plan_reset

FIELDS: Final = ("to", "at", "topic")


@dataclass(frozen=True, slots=True)
class _Preview:
    """A plan, and how many members keep it from being carried out."""

    planned: list[PlannedOffset]
    members: int


async def preview(visit: Visit) -> Response:
    """Show the form, and beneath it the plan that it asks for."""
    group = visit.request.path_params["group"]
    typed = {name: visit.query(name) for name in FIELDS}
    if not typed["to"]:
        return _form(visit, group, typed)
    try:
        wanted = wanted_reset(typed)
        found = await visit.ask(lambda kit: _planned(kit, group, wanted))
    except NoSuchGroup:
        raise NotFound(f"there is no group {group} in {visit.cluster.name}") from None
    except BadField as error:
        return _form(visit, group, typed, status=400, problem=str(error))
    except OperationError as error:
        return _form(visit, group, typed, status=409, problem=str(error))
    return _form(visit, group, typed, found=found)


async def reset(visit: Visit) -> Response:
    """Carry out the plan that was shown, unless the group has gone on, or has members."""
    group = visit.request.path_params["group"]
    try:
        shown = shown_plan(visit.form.get("plan", ""))
    except BadField as error:
        raise BadForm(str(error)) from None
    await visit.act(
        "group.reset-offsets",
        group,
        lambda: visit.ask(lambda kit: _commit(kit, group, shown)),
        offsets=[[*each.place, each.committed, each.new] for each in shown],
    )
    count = f"{len(shown):,} partition{'' if len(shown) == 1 else 's'}"
    return visit.redirect(visit.address("groups", group), notice=f"Group {group} goes on elsewhere in {count}.")


def _form(
    visit: Visit,
    group: str,
    typed: Mapping[str, str],
    *,
    status: int = 200,
    problem: str | None = None,
    found: _Preview | None = None,
) -> Response:
    planned = [] if found is None else found.planned
    return visit.render(
        "group_reset.html",
        status=status,
        group=group,
        typed=typed,
        targets=TARGETS,
        problem=problem,
        found=found,
        shown=page_of(planned, page_number(visit.query("page", "1"))),
        plan=plan_text(planned),
    )


def _planned(kit: ClusterKit, group: str, wanted: WantedReset) -> _Preview:
    bootstrap = kit.settings.bootstrap
    with kit.group_client() as client:
        members = len(describe_group(client, group, bootstrap).members)
        known = known_offsets(client, group, wanted.chosen, wanted.reset, bootstrap)
    if len(known) > PLANNED_MAX:
        raise OperationError(f"that is more than {PLANNED_MAX:,} partitions; name topics")
    return _Preview(plan_reset(wanted.reset, known), members)


def _commit(kit: ClusterKit, group: str, shown: list[ShownOffset]) -> None:
    bootstrap = kit.settings.bootstrap
    with kit.group_client() as client:
        now = known_offsets(client, group, selection_of(shown), Reset(Target.CURRENT), bootstrap)
        if problem := outdated(shown, now):
            raise OperationError(f"nothing was changed: {problem}; look at the plan again")
        # Last, as members may come at any time; the coordinator refuses offsets for a group that has some.
        if describe_group(client, group, bootstrap).members:
            raise OperationError(f"nothing was changed: group {group} has members; stop them first")
        refused = commit_offsets(client, group, [(each.place, each.new) for each in shown], bootstrap)
    if refused:
        (topic, partition), reason = next(iter(refused.items()))
        raise OperationError(
            f"{len(refused):,} of {len(shown):,} partitions were not reset, "
            f"the first {topic} partition {partition}: {reason}"
        )


VIEWS: Final = (
    View("/groups/{group:segment}/reset", preview, "groups"),
    View("/groups/{group:segment}/reset", reset, "groups", method="POST"),
)
