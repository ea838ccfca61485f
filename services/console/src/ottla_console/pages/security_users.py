"""Users of SCRAM: listed, created, given other passwords, deleted."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.visit import NotFound, Visit
from ottla_console.views.paging import page_number, page_of
from ottla_console.views.user_form import (
    BadUser,
    UserRow,
    typed_mechanisms,
    typed_name,
    typed_password,
    user_rows,
)
from ottla_core.cluster.state.security import ScramMechanism
from ottla_core.scram import ITERATIONS_DEFAULT
from ottla_operations.errors import OperationError
from ottla_operations.users.scram_users import delete, set_password, users_of

Known = Mapping[str, Mapping[ScramMechanism, int]]


async def users(visit: Visit) -> Response:
    """Show the users; what the cluster refuses is told beneath the tabs."""
    words = visit.query("q")
    try:
        rows, problem = user_rows(await visit.ask(_users), words), None
    except OperationError as error:
        rows, problem = [], str(error)
    return visit.render(
        "security_users.html",
        tab="users",
        words=words,
        problem=problem,
        shown=page_of(rows, page_number(visit.query("page", "1"))),
    )


async def show_new(visit: Visit) -> Response:
    """Show the form of a new user."""
    return visit.render("security_new_user.html", tab="users", typed={}, problem=None)


async def create(visit: Visit) -> Response:
    """Create a user; what is wrong with it is told beside the form, without the password."""
    try:
        name, password = typed_name(visit.form), typed_password(visit.form)
        mechanisms = typed_mechanisms(visit.form)
    except BadUser as error:
        return _new(visit, 400, str(error))

    def effect(kit: ClusterKit) -> None:
        with kit.cluster_admin() as admin:
            if name in users_of(admin):
                raise OperationError(f"there is a user {name} already; nothing was changed")
            set_password(admin, name, password, mechanisms, ITERATIONS_DEFAULT)

    names = [each.sasl_name for each in mechanisms]
    try:
        await visit.act("user.create", name, lambda: visit.ask(effect), mechanisms=names)
    except OperationError as error:
        return _new(visit, 409, str(error))
    return visit.redirect(visit.address("security", "users"), notice=f"User {name} was created.")


async def user(visit: Visit) -> Response:
    """Show a user."""
    return _one(visit, await _row(visit))


async def change_password(visit: Visit) -> Response:
    """Give a user another password, for all mechanisms that there is one for."""
    row = await _row(visit)
    try:
        password = typed_password(visit.form)
    except BadUser as error:
        return _one(visit, row, 400, str(error))

    def effect(kit: ClusterKit) -> None:
        with kit.cluster_admin() as admin:
            known = users_of(admin).get(row.name)
            if not known:  # looked at again, or a user who was deleted meanwhile would come back
                raise OperationError(f"there is no user {row.name} any more; nothing was changed")
            set_password(admin, row.name, password, sorted(known), ITERATIONS_DEFAULT)

    await visit.act("user.password", row.name, lambda: visit.ask(effect))
    if row.name == visit.user and visit.cluster.client.get("sasl.mechanism", "").startswith("SCRAM"):
        # The session's connections would go on with the former password.
        session = visit.console.sessions.sign_out(visit.session_id)
        for name, credentials in (session.credentials if session is not None else {}).items():
            visit.console.watches.end(visit.console.clusters[name], credentials)
    return visit.redirect(
        visit.address("security", "users", row.name), notice=f"The password of {row.name} was changed."
    )


async def remove(visit: Visit) -> Response:
    """Delete a user, once the name was typed."""
    row = await _row(visit)

    def effect(kit: ClusterKit) -> None:
        with kit.cluster_admin() as admin:
            delete(admin, row.name, sorted(users_of(admin).get(row.name, ())))

    await visit.act("user.delete", row.name, lambda: visit.ask(effect), needed=row.name)
    return visit.redirect(visit.address("security", "users"), notice=f"User {row.name} was deleted.")


def _users(kit: ClusterKit) -> Known:
    with kit.cluster_admin() as admin:
        return users_of(admin)


async def _row(visit: Visit) -> UserRow:
    name = visit.request.path_params["user"]
    row = next((each for each in user_rows(await visit.ask(_users), "") if each.name == name), None)
    if row is None:
        raise NotFound(f"there is no user {name} of SCRAM in {visit.cluster.name}")
    return row


def _new(visit: Visit, status: int, problem: str) -> Response:
    typed = {name: value for name, value in visit.form.items() if name not in ("password", "again")}
    return visit.render("security_new_user.html", status=status, tab="users", typed=typed, problem=problem)


def _one(visit: Visit, row: UserRow, status: int = 200, problem: str | None = None) -> Response:
    return visit.render("security_user.html", status=status, tab="users", row=row, problem=problem)


VIEWS: Final = (
    View("/security/users", users, "security"),
    View("/security/new-user", show_new, "security"),
    View("/security/new-user", create, "security", method="POST"),
    View("/security/users/{user:segment}", user, "security"),
    View("/security/users/{user:segment}/password", change_password, "security", method="POST"),
    View("/security/users/{user:segment}/delete", remove, "security", method="POST"),
)
