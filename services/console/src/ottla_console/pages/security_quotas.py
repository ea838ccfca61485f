"""Quotas of clients: listed, set, removed."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, Visit
from ottla_console.views.paging import page_number, page_of
from ottla_console.views.quota_form import KINDS, NAMES, BadQuota, quota_rows, typed_entity, typed_quota
from ottla_operations.errors import OperationError
from ottla_operations.quotas.client_quotas import Entity, change, quotas_of, shown

FIELDS: Final = ("name", "value", *KINDS, *(f"{kind}-is" for kind in KINDS))


async def quotas(visit: Visit) -> Response:
    """Show the quotas; what the cluster refuses is told beneath the tabs."""
    words = visit.query("q")
    try:
        rows, problem = quota_rows(await visit.ask(_quotas), words), None
    except OperationError as error:
        rows, problem = [], str(error)
    return visit.render(
        "security_quotas.html",
        tab="quotas",
        words=words,
        names=NAMES,
        problem=problem,
        page=page_of(rows, page_number(visit.query("page", "1"))),
    )


async def show_form(visit: Visit) -> Response:
    """Show the form that sets a quota, filled in by the address."""
    return _form(visit, {name: visit.query(name) for name in FIELDS})


async def set_quota(visit: Visit) -> Response:
    """Set a quota; what is wrong with it is told beside the form as it was filled in."""
    try:
        entity, (name, value) = typed_entity(visit.form), typed_quota(visit.form)
    except BadQuota as error:
        return _form(visit, visit.form, 400, str(error))
    try:
        await visit.act(
            "quota.set", shown(entity), lambda: _change(visit, entity, name, value), quota=name, value=value
        )
    except OperationError as error:
        return _form(visit, visit.form, 409, str(error))
    return visit.redirect(visit.address("security", "quotas"), notice=f"{name} of {shown(entity)} was set.")


async def remove(visit: Visit) -> Response:
    """Remove a quota."""
    try:
        entity, name = typed_entity(visit.form), visit.form.get("name", "")
    except BadQuota as error:
        raise BadForm(str(error)) from None
    if name not in NAMES:
        raise BadForm("Quota: one of the list")
    await visit.act("quota.remove", shown(entity), lambda: _change(visit, entity, name, None), quota=name)
    return visit.redirect(visit.address("security", "quotas"), notice=f"{name} of {shown(entity)} was removed.")


def _quotas(kit: ClusterKit) -> Mapping[Entity, Mapping[str, float]]:
    with kit.cluster_admin() as admin:
        return quotas_of(admin)


async def _change(visit: Visit, entity: Entity, name: str, value: float | None) -> None:
    def effect(kit: ClusterKit) -> None:
        with kit.cluster_admin() as admin:
            change(admin, entity, {name: value})

    await visit.ask(effect)


def _form(visit: Visit, typed: Mapping[str, str], status: int = 200, problem: str | None = None) -> Response:
    return visit.render(
        "security_set_quota.html",
        status=status,
        tab="quotas",
        typed=typed,
        problem=problem,
        kinds=KINDS,
        names=NAMES,
    )


VIEWS: Final = (
    View("/security/quotas", quotas, "security"),
    View("/security/set-quota", show_form, "security"),
    View("/security/set-quota", set_quota, "security", method="POST"),
    View("/security/remove-quota", remove, "security", method="POST"),
)
