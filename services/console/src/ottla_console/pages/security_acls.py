"""Access control lists: filtered, created and deleted, each after a preview of exactly what changes."""

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, Visit
from ottla_console.views.acl_table import (
    FILTERS,
    PLANNED_MAX,
    AclPlan,
    BadAcl,
    creation_plan,
    deletion_plan,
    plan_text,
    planned_bindings,
    selected_bindings,
    typed_bindings,
)
from ottla_console.views.paging import page_number, page_of
from ottla_core.acls import AclBinding
from ottla_operations.acls.binding_words import OPERATIONS, document_of
from ottla_operations.acls.cluster_acls import NoAuthorizer, all_bindings, create, delete
from ottla_operations.errors import OperationError

FIELDS: Final = ("principal", "operations", "resources", "permission", "host")


async def acls(visit: Visit) -> Response:
    """Show the access control lists that a filter finds."""
    wanted = {name: visit.query(name) for name in FILTERS}
    problem, has_authorizer, status = None, True, 200
    found: list[AclBinding] = []
    try:
        found = selected_bindings(await visit.ask(_present), wanted)
    except NoAuthorizer:
        has_authorizer = False
    except BadAcl as error:
        problem, status = str(error), 400
    except OperationError as error:
        problem = str(error)
    return visit.render(
        "security_acls.html",
        status=status,
        tab="acls",
        wanted=wanted,
        operations=("all", *sorted(OPERATIONS)),
        problem=problem,
        has_authorizer=has_authorizer,
        planned_max=PLANNED_MAX,
        shown=page_of([document_of(each) for each in found], page_number(visit.query("page", "1"))),
    )


async def show_new(visit: Visit) -> Response:
    """Show the form of new access control lists, and beneath it the preview that it asks for."""
    typed = {name: visit.query(name) for name in FIELDS}
    if not typed["permission"]:
        return _new(visit, typed)
    try:
        wanted = typed_bindings(typed)
    except BadAcl as error:
        return _new(visit, typed, status=400, problem=str(error))
    return _new(visit, typed, plan=creation_plan(wanted, await visit.ask(_present), visit.user))


async def add(visit: Visit) -> Response:
    """Create the access control lists of a preview."""
    planned = _planned(visit)

    def effect(kit: ClusterKit) -> None:
        with kit.cluster_admin() as admin:
            create(admin, planned)

    await visit.act("acl.create", _target(planned), lambda: visit.ask(effect), acls=_documents(planned))
    address = visit.address("security", "acls", principal=planned[0].principal)
    return visit.redirect(address, notice=f"{_count(planned)} created.")


async def show_deletion(visit: Visit) -> Response:
    """Show which access control lists would be deleted."""
    wanted = {name: visit.query(name) for name in FILTERS}
    try:
        found = selected_bindings(await visit.ask(_present), wanted)
    except BadAcl as error:
        raise BadForm(str(error)) from None
    if visit.query("exact"):  # of what is for a resource, what is written so
        found = [each for each in found if document_of(each)["resource"] == wanted["resource"]]
    if len(found) > PLANNED_MAX:
        raise BadForm(f"that is more than {PLANNED_MAX} access control lists; choose fewer by the filter")
    return visit.render(
        "security_acl_deletion.html",
        tab="acls",
        plan=deletion_plan(found, visit.user),
        documents=_documents(found),
        text=plan_text(found),
    )


async def remove(visit: Visit) -> Response:
    """Delete the access control lists of a preview, exactly those."""
    planned = _planned(visit)

    def effect(kit: ClusterKit) -> int:
        with kit.cluster_admin() as admin:
            return len(delete(admin, planned))

    deleted = await visit.act("acl.delete", _target(planned), lambda: visit.ask(effect), acls=_documents(planned))
    gone = len(planned) - deleted
    missing = f" {gone:,} of those shown were not there any more." if gone else ""
    return visit.redirect(visit.address("security", "acls"), notice=f"{_count(planned)} deleted.{missing}")


def _present(kit: ClusterKit) -> list[AclBinding]:
    with kit.cluster_admin() as admin:
        return all_bindings(admin)


def _planned(visit: Visit) -> list[AclBinding]:
    try:
        return planned_bindings(visit.form.get("plan", ""))
    except BadAcl as error:
        raise BadForm(str(error)) from None


def _new(
    visit: Visit,
    typed: Mapping[str, str],
    *,
    status: int = 200,
    problem: str | None = None,
    plan: AclPlan | None = None,
) -> Response:
    return visit.render(
        "security_new_acl.html",
        status=status,
        tab="acls",
        typed=typed,
        problem=problem,
        plan=plan,
        documents=_documents(plan.bindings) if plan is not None else [],
        text=plan_text(plan.bindings) if plan is not None else "",
    )


def _documents(bindings: Sequence[AclBinding]) -> list[dict[str, str]]:
    return [document_of(each) for each in bindings]


def _target(bindings: list[AclBinding]) -> str:
    return ", ".join(sorted({each.principal for each in bindings}))


def _count(bindings: list[AclBinding]) -> str:
    return "1 access control list was" if len(bindings) == 1 else f"{len(bindings):,} access control lists were"


VIEWS: Final = (
    View("/security/acls", acls, "security"),
    View("/security/new-acl", show_new, "security"),
    View("/security/new-acl", add, "security", method="POST"),
    View("/security/delete-acls", show_deletion, "security"),
    View("/security/delete-acls", remove, "security", method="POST"),
)
