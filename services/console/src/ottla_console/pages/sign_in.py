"""Signing in to a cluster with its own SASL credentials, and out of all."""

import time
from dataclasses import replace
from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.credentials import Credentials
from ottla_console.pages.home import local_path
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, Visit, cluster_address
from ottla_operations.errors import OperationError
from ottla_operations.kafka_access import LoginRefused

CREDENTIAL_CHARACTERS_MAX: Final = 4096
LOGIN_WITHIN_S: Final = 15.0


async def show(visit: Visit) -> Response:
    """Show the form."""
    openid = visit.console.openid
    provider = openid.settings.host if openid is not None and visit.cluster.by_provider else None
    return visit.render("sign_in.html", then=visit.query("then"), problem=None, typed="", provider=provider)


async def sign_in(visit: Visit) -> Response:
    """Have the cluster judge the credentials, and begin a session with them."""
    cluster = visit.cluster
    if not cluster.needs_sign_in:
        return visit.redirect(cluster_address(cluster.name))
    if cluster.by_provider:
        raise BadForm(f"users of {cluster.name} sign in with the OpenID provider, and not with a password here")
    user, password = visit.form.get("user", ""), visit.form.get("password", "")
    if not user or max(len(user), len(password)) > CREDENTIAL_CHARACTERS_MAX:
        raise BadForm("type the name and the password of a user of the cluster")
    client = visit.request.client
    attempt = (cluster.name, user, client.host if client is not None else "")
    if wait_s := visit.console.brake.begin(*attempt, time.monotonic()):
        return await _refused(visit, f"too many sign-ins have failed; try again in {wait_s} s", 429, wait_s)
    credentials = Credentials(user, password)
    kit = ClusterKit(cluster, credentials, visit.console.threads)
    try:
        await kit.ask(ClusterKit.admin_client, within_s=LOGIN_WITHIN_S)
    except LoginRefused as error:
        return await _refused(visit, str(error), 401)
    except OperationError as error:
        visit.console.brake.not_judged(*attempt)
        return await _refused(visit, str(error), 502)
    finally:
        kit.close()
    visit.console.brake.succeeded(*attempt)
    await visit.console.actions.note_sign_in(cluster.name, user)
    session_id = visit.console.sessions.sign_in(visit.session_id, {cluster.name: credentials}, time.monotonic())
    answer = visit.redirect(local_path(visit.form.get("then") or cluster_address(cluster.name)))
    answer.set_cookie(
        visit.console.cookie, session_id, path="/", httponly=True, samesite="lax", secure=visit.console.is_secure
    )
    return answer


async def _refused(visit: Visit, problem: str, status: int, wait_s: int = 0) -> Response:
    user, then = visit.form.get("user", ""), visit.form.get("then", "")
    await visit.console.actions.note_sign_in(visit.cluster.name, user, problem=problem)
    answer = visit.render("sign_in.html", status=status, then=then, problem=problem, typed=user, provider=None)
    if wait_s:
        answer.headers["retry-after"] = str(wait_s)
    return answer


async def sign_out(visit: Visit) -> Response:
    """End the session and its connections."""
    session = visit.console.sessions.sign_out(visit.session_id)
    then = "/"
    for name in session.credentials if session is not None else ():
        if visit.console.clusters[name].by_provider:
            then = "/openid/signed-out"
    answer = replace(visit, session=None, session_id=None).redirect(then)
    answer.delete_cookie(visit.console.cookie, path="/", secure=visit.console.is_secure, httponly=True)
    return answer


PATH: Final = "/clusters/{cluster:segment}/sign-in"
VIEWS: Final = (
    View(PATH, show, is_of_cluster=False),
    View(PATH, sign_in, method="POST", is_of_cluster=False),
    View("/sign-out", sign_out, method="POST", is_of_cluster=False),
)
