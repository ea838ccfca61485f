"""From addresses to pages: what surrounds every page is here, so that pages have only what is theirs.

A page is a `View` in the list `VIEWS` of its file, and its file is a line in `all_pages.py`.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla_console.access.actions import Action, Refused
from ottla_console.access.roles import role_of_page, why_not
from ottla_console.pages.visit import BadForm, Console, NotFound, SignInNeeded, Visit, cluster_address, parse_form
from ottla_operations.errors import OperationError

Page = Callable[[Visit], Awaitable[Response]]
PATH_KEPT_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class View:
    """One address.

    Attributes:
        path: below a cluster's address, such as ``/topics/{topic:segment}``; from the root if `is_of_cluster` is off.
        page: what answers.
        section: the entry of the navigation that it belongs to.
        method: GET to show, POST for a form that changes something.
        is_of_cluster: whether it shows a cluster, so that the user has to be signed in there.
    """

    path: str
    page: Page
    section: str = ""
    method: str = "GET"
    is_of_cluster: bool = True


def routes(console: Console, views: Sequence[View]) -> list[Route]:
    """Return the routes of all pages."""
    return [_route(console, each) for each in views]


def _route(console: Console, view: View) -> Route:
    async def endpoint(request: Request) -> Response:
        session_id = request.cookies.get(console.cookie)
        session = console.sessions.find(session_id, time.monotonic())
        visit = Visit(
            console=console,
            request=request,
            session_id=session_id if session is not None else None,
            session=session,
            section=view.section,
        )
        return await _answer(visit, view)

    prefix = "/clusters/{cluster:segment}" if view.is_of_cluster else ""
    return Route(f"{prefix}{view.path}" or "/", endpoint, methods=[view.method])


async def _answer(visit: Visit, view: View) -> Response:
    """Return a page's answer, or one clear message on a page where there is none."""
    try:
        if view.is_of_cluster:
            await _check_role(visit, view)  # whoever has not signed in learns nothing of what is at the address
        if view.method == "POST":
            visit = replace(visit, form=parse_form(await visit.request.body()))
            if not visit.console.tokens.is_valid(visit.form.get("token", ""), visit.session_id):
                raise BadForm("the form is from before the last sign-in or start of the console: load its page again")
        return await view.page(visit)
    except SignInNeeded:
        return _to_sign_in(visit)
    except NotFound as error:
        return _problem(visit, 404, "Not found", error)
    except Refused as error:
        return _problem(visit, 403, "Not carried out", error)
    except BadForm as error:
        return _problem(visit, 400, "This cannot be used", error)
    except OperationError as error:
        if view.is_of_cluster and not visit.is_signed_in(visit.cluster):  # the user's token has ended meanwhile
            return _to_sign_in(visit)
        return _problem(visit, 502, "The cluster did not do what was asked", error)


async def _check_role(visit: Visit, view: View) -> None:
    """See that the user has signed in, and that a role, where one limits the user, is enough for the page.

    Raises:
        SignInNeeded: the user has not signed in.
        Refused: the role is not enough; for a change, the audit log says so.
    """
    credentials = visit.credentials
    if credentials is None or not credentials.is_limited:
        return
    changes = view.method != "GET"
    path = visit.request.url.path
    problem = why_not(credentials.user, credentials.role, role_of_page(view.section, changes=changes), "this page")
    if problem is None:
        return
    if changes:
        cluster = visit.cluster.name
        refused = Action(
            name="form", target=path[:PATH_KEPT_MAX], user=credentials.user, cluster=cluster, forbidden=problem
        )
        await visit.console.actions.refuse(refused)
        problem = f"{problem}; nothing was changed"
    raise Refused(problem)


def _to_sign_in(visit: Visit) -> Response:
    address = cluster_address(visit.cluster.name, "sign-in", then=visit.request.url.path)
    if visit.request.headers.get("hx-request"):
        return Response(status_code=401, headers={"hx-redirect": address})
    return visit.redirect(address)


def _problem(visit: Visit, status: int, title: str, error: OperationError) -> Response:
    return visit.render("problem.html", status=status, title=title, message=str(error))
