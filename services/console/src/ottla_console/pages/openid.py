"""Signing in with the OpenID provider: to it and back, and what is shown after signing out.

The way there is a link and no form: browsers hold a form's redirects to the policy's `form-action` as well.
"""

import time
from collections.abc import Mapping
from typing import Final

from starlette.responses import RedirectResponse, Response

from ottla_console.clusters.credentials import Login, RoleLogin, TokenLogin
from ottla_console.config.openid_settings import CALLBACK
from ottla_console.openid.provider import ProviderRefused
from ottla_console.openid.sign_in import OpenIdSignIn, SignedIn, SignInRefused
from ottla_console.openid.sign_in_attempts import LASTS_S, Attempt
from ottla_console.pages.home import local_path
from ottla_console.pages.routing import View
from ottla_console.pages.visit import NotFound, Visit, cluster_address
from ottla_operations.errors import OperationError

COOKIE_ENDING: Final = "-sign-in"
PARAMETER_CHARACTERS_MAX: Final = 8192
SAID_CHARACTERS_MAX: Final = 300


async def begin(visit: Visit) -> Response:
    """Send the browser to the provider."""
    openid = _openid(visit)
    cluster = visit.query("cluster")
    settings = visit.console.clusters.get(cluster)
    if settings is None or not settings.by_provider:
        raise NotFound(f"nobody signs in to {cluster or 'a cluster'} with the OpenID provider")
    then = local_path(visit.query("then") or cluster_address(cluster))
    try:
        attempt, address = await openid.begin(visit.request.cookies.get(_cookie(visit)), cluster=cluster, then=then)
    except OperationError as error:
        return _problem(visit, cluster, str(error), 502)
    answer = RedirectResponse(address, 303, headers={"cache-control": "no-store"})
    answer.set_cookie(
        _cookie(visit),
        attempt.browser,
        max_age=int(LASTS_S),
        path="/",
        httponly=True,
        samesite="lax",  # the provider's page sends the browser back
        secure=visit.console.is_secure,
    )
    return answer


async def callback(visit: Visit) -> Response:
    """Take the browser back from the provider, and begin a session."""
    openid = _openid(visit)
    cluster = ""
    try:
        attempt = openid.attempt_of(_parameter(visit, "state"), visit.request.cookies.get(_cookie(visit)))
        cluster = attempt.cluster
        signed_in = await openid.finish(attempt, _code(visit, openid))
        credentials = _credentials(visit, signed_in)
    except (SignInRefused, ProviderRefused) as refusal:
        await visit.console.actions.note_sign_in(cluster, "", problem=str(refusal))
        return _problem(visit, cluster, f"{refusal}; begin anew", 403)
    except OperationError as error:
        await visit.console.actions.note_sign_in(cluster, "", problem=str(error))
        return _problem(visit, cluster, str(error), 502)
    return await begin_session(visit, attempt, signed_in, credentials)


async def signed_out(visit: Visit) -> Response:
    """Say that the session has ended, and lead to where the provider's ends."""
    return visit.render(
        "signed_out.html", provider=_openid(visit).settings.host, address=await _openid(visit).end_session_address()
    )


async def begin_session(
    visit: Visit, attempt: Attempt, signed_in: SignedIn, credentials: Mapping[str, Login]
) -> Response:
    """Begin a session of somebody whom the provider has signed in, and of nobody whom it has signed in before."""
    if visit.session is not None:
        by_provider = [name for name, settings in visit.console.clusters.items() if settings.by_provider]
        # They may be another user's, with rights that this one does not have.
        former = {
            name: visit.session.credentials.pop(name) for name in by_provider if name in visit.session.credentials
        }
        visit.console.end_logins(former)
    role = signed_in.identity.role
    await visit.console.actions.note_sign_in(
        attempt.cluster, signed_in.identity.user, role=role.title if role is not None else "none"
    )
    session_id = visit.console.sessions.sign_in(visit.session_id, credentials, time.monotonic())
    answer = visit.redirect(local_path(attempt.then))
    answer.set_cookie(
        visit.console.cookie, session_id, path="/", httponly=True, samesite="lax", secure=visit.console.is_secure
    )
    return answer


def _credentials(visit: Visit, signed_in: SignedIn) -> Mapping[str, Login]:
    """Return what somebody has signed in with, for each cluster of the provider.

    Raises:
        SignInRefused: there is no cluster for somebody without a role.
    """
    user, role = signed_in.identity.user, signed_in.identity.role
    found: dict[str, Login] = {}
    for name, settings in visit.console.clusters.items():
        if settings.login == "token":
            found[name] = TokenLogin(user, role, signed_in.tokens)
        elif settings.login == "openid" and role is not None:
            found[name] = RoleLogin(user, role)
    if not found:
        raise SignInRefused(
            f"{user} has no role here: of the user's groups, none is in the settings oidc.viewer.groups, "
            "oidc.editor.groups and oidc.admin.groups"
        )
    return found


def _code(visit: Visit, openid: OpenIdSignIn) -> str:
    """Return the code of a callback.

    Raises:
        SignInRefused: there is none, or another provider has made the answer (RFC 9207).
    """
    issuer = _parameter(visit, "iss")
    if issuer and issuer != openid.settings.issuer:
        raise SignInRefused("the answer is of another provider (iss)")
    if problem := _parameter(visit, "error"):
        said = f"{problem} {_parameter(visit, 'error_description')}".strip()
        raise SignInRefused(f"{openid.settings.host} did not sign you in: {said[:SAID_CHARACTERS_MAX]}")
    if not (code := _parameter(visit, "code")):
        raise SignInRefused("the provider's answer has no code")
    return code


def _parameter(visit: Visit, name: str) -> str:
    value = visit.query(name)
    return value if len(value) <= PARAMETER_CHARACTERS_MAX and value.isprintable() else ""


def _openid(visit: Visit) -> OpenIdSignIn:
    if visit.console.openid is None:
        raise NotFound("no OpenID provider signs users in; the setting oidc.issuer names one")
    return visit.console.openid


def _cookie(visit: Visit) -> str:
    return f"{visit.console.cookie}{COOKIE_ENDING}"


def _problem(visit: Visit, cluster: str, problem: str, status: int) -> Response:
    names = [name for name, each in visit.console.clusters.items() if each.by_provider]
    again = cluster_address(cluster or names[0], "sign-in")
    return visit.render("openid_problem.html", status=status, problem=problem, again=again)


VIEWS: Final = (
    View("/openid/begin", begin, is_of_cluster=False),
    View(CALLBACK, callback, is_of_cluster=False),
    View("/openid/signed-out", signed_out, is_of_cluster=False),
)
