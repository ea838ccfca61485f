"""What roles may do, on every page and in every action, so that none is forgotten."""

import ast
import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request

import ottla_console
from ottla_console.access.actions import Actions, Refused
from ottla_console.access.audit_log import AuditLog
from ottla_console.access.form_tokens import FormTokens
from ottla_console.access.notices import Notices
from ottla_console.access.roles import ACTIONS, role_of_action
from ottla_console.access.sessions import Sessions
from ottla_console.access.sign_in_brake import SignInBrake
from ottla_console.clusters.bounded_threads import BoundedThreads
from ottla_console.clusters.credentials import Credentials, Login, RoleLogin, TokenLogin
from ottla_console.clusters.movements import Movements
from ottla_console.clusters.topic_tail import Tails
from ottla_console.clusters.verifications import Verifications
from ottla_console.clusters.watches import Watches
from ottla_console.config.cluster_settings import ClusterSettings
from ottla_console.config.roles import Role
from ottla_console.openid.access_tokens import AccessTokens
from ottla_console.openid.id_token import Identity
from ottla_console.openid.sign_in import SignedIn
from ottla_console.openid.sign_in_attempts import SignInAttempts
from ottla_console.openid.token_answer import TokenAnswer
from ottla_console.pages.all_pages import NAVIGATION, VIEWS
from ottla_console.pages.connect_access import change_by_workers
from ottla_console.pages.openid import begin_session
from ottla_console.pages.pipeline import why_no_pipeline
from ottla_console.pages.routing import View, routes
from ottla_console.pages.static_files import static_files
from ottla_console.pages.templates import template_environment
from ottla_console.pages.visit import Console, Visit
from ottla_core.rest.path_segments import EncodedPaths
from ottla_operations.records.record_masking import How, Masking, MaskingRule, masked_field

PAGES = Path(ottla_console.__file__).parent / "pages"
COOKIE = "session"
OF_CLUSTERS = [each for each in VIEWS if each.is_of_cluster]
FORMS = [each for each in OF_CLUSTERS if each.method == "POST"]
READ = [each for each in OF_CLUSTERS if each.method == "GET"]
CHOSEN = {"mirror.": {"mirror.pause", "mirror.resume"}, "link.": {"link.pause", "link.resume"}}
"""Actions whose name is put together."""


@pytest.fixture
def console() -> Iterator[Console]:
    """A console of one cluster that nobody can reach."""
    threads = BoundedThreads(2)
    watches = Watches(threads)
    files = static_files()
    drawn = iter(range(1000))
    yield Console(
        clusters={
            "prod": ClusterSettings(name="prod", bootstrap="127.0.0.1:1", login="openid", connect_changes="roles")
        },
        templates=template_environment(files, NAVIGATION),
        watches=watches,
        movements=Movements(),
        verifications=Verifications(),
        threads=threads,
        sessions=Sessions(sessions_max=10, idle_s=60, lifetime_s=60, draw_id=lambda: f"s{next(drawn)}"),
        brake=SignInBrake(),
        tokens=FormTokens(),
        notices=Notices(),
        actions=Actions(AuditLog(None), read_only=False),
        tails=Tails(),
        masking=Masking((), b"secret"),
        cookie=COOKIE,
        is_secure=False,
    )
    watches.close()
    threads.close()


class Browser:
    """Asks for the console's pages, with forms that are valid."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._app = Starlette(routes=routes(console, VIEWS), middleware=[Middleware(EncodedPaths)])

    def asks(self, views: Sequence[View], login: Login | None) -> dict[str, httpx.Response]:
        """The answers by view, to somebody who has signed in so."""
        session = self._console.sessions.sign_in(None, {} if login is None else {"prod": login}, time.monotonic())
        form = {"token": self._console.tokens.token_of(session), "confirm": "x"}

        async def ask() -> dict[str, httpx.Response]:
            transport, cookies = httpx.ASGITransport(self._app), {COOKIE: session}
            answers = {}
            async with httpx.AsyncClient(transport=transport, base_url="http://console", cookies=cookies) as client:
                for view in views:
                    path = "/clusters/prod" + re.sub(r"\{\w+:segment\}", "x", view.path)
                    posted = {"data": form} if view.method == "POST" else {}
                    answers[f"{view.method} {view.path}"] = await client.request(view.method, path, **posted)
            return answers

        answers = asyncio.run(ask())
        assert len(self._console.watches) == 0, "the cluster was asked"
        return answers


def test_no_form_is_taken_of_a_viewer_and_the_audit_log_says_so(console: Console) -> None:
    answers = Browser(console).asks(FORMS, RoleLogin("eve", Role.VIEWER))
    assert {name: each.status_code for name, each in answers.items()} == dict.fromkeys(answers, 403)
    assert all("takes the role" in each.text for each in answers.values())
    records = console.actions.newest("prod")
    assert len(records) == len(FORMS)
    assert {(each["user"], each["outcome"], each["action"]) for each in records} == {("eve", "refused", "form")}


def test_no_page_is_shown_to_somebody_without_a_role_or_without_a_sign_in(console: Console) -> None:
    browser = Browser(console)
    without_role = browser.asks(OF_CLUSTERS, RoleLogin("eve", None))
    assert {name: each.status_code for name, each in without_role.items()} == dict.fromkeys(without_role, 403)
    nobody = browser.asks(OF_CLUSTERS, None)
    assert {name: each.status_code for name, each in nobody.items()} == dict.fromkeys(nobody, 303)
    assert all(each.headers["location"].startswith("/clusters/prod/sign-in?then=") for each in nobody.values())


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
def test_pages_of_security_and_state_are_for_admins(console: Console, role: Role) -> None:
    closed = [each for each in READ if each.section in ("security", "state")]
    answers = Browser(console).asks(closed, RoleLogin("eve", role))
    assert {name: each.status_code for name, each in answers.items()} == dict.fromkeys(answers, 403)


def test_every_page_belongs_to_an_entry_of_the_navigation() -> None:
    assert {each.section for each in OF_CLUSTERS} <= {each.id for each in NAVIGATION}


def acted() -> Iterator[tuple[str, str]]:
    """Each action that a page carries out, as it is written there, with the name of the file."""
    for path in sorted(PAGES.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("act", "change_by_workers", "_begin"):
                arguments = [*node.args, *(each.value for each in node.keywords)]
                for each in arguments:
                    for part in ast.walk(each):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str) and "." in part.value:
                            yield part.value, path.name


def test_the_table_has_every_action_of_the_pages_and_no_other() -> None:
    whole = {name for name, _ in acted() if re.fullmatch(r"[a-z-]+\.[a-z-]+", name)}
    begun = {name for name, _ in acted() if re.fullmatch(r"[a-z-]+\.", name)}
    from ottla_console.pages.connector_actions import VERBS  # noqa: PLC0415

    made = {f"connector.{verb}" for verb in VERBS}
    for prefix in begun - {"connector."}:
        made |= CHOSEN[prefix]
    assert whole | made == set(ACTIONS)


def test_an_action_that_nobody_has_thought_of_is_for_admins() -> None:
    assert role_of_action("topic.launder") is Role.ADMIN


def visit(console: Console, role: Role | None) -> Visit:
    session_id = console.sessions.sign_in(None, {"prod": RoleLogin("eve", role)}, time.monotonic())
    scope: dict[str, Any] = {
        "type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": [],
        "path_params": {"cluster": "prod"},
    }  # fmt: skip
    session = console.sessions.find(session_id, time.monotonic())
    return Visit(console=console, request=Request(scope), session_id=session_id, session=session)


@pytest.mark.parametrize("role", [None, *Role])
def test_an_action_has_its_effect_with_the_role_and_only_with_it(console: Console, role: Role | None) -> None:
    async def act(action: str, effects: list[str]) -> None:
        async def effect() -> None:
            effects.append(action)

        await visit(console, role).act(action, "x", effect)

    for action in [*ACTIONS, "topic.launder"]:
        effects: list[str] = []
        may = role is not None and role >= role_of_action(action)
        with nullcontext() if may else pytest.raises(Refused, match="takes the role"):
            asyncio.run(act(action, effects))
        assert effects == ([action] if may else [])
        record = console.actions.newest("prod")[0]
        assert (record["user"], record["action"], record["outcome"]) == ("eve", action, "done" if may else "refused")


def test_connectors_are_changed_by_roles_also_where_the_cluster_knows_the_user(console: Console) -> None:
    for role in (None, Role.VIEWER):
        refused = visit(console, role)
        with pytest.raises(Refused, match="takes the role editor"):
            asyncio.run(change_by_workers(refused, "connector.delete", "x", lambda _: None))


def test_whoever_signs_in_after_another_user_gets_nothing_of_that_user_s(console: Console) -> None:
    token = ClusterSettings(name="other", bootstrap="x:1", login="token")
    shown = replace(console, clusters={**console.clusters, "other": token})
    tokens = [
        AccessTokens(TokenAnswer(access_token=name, life_s=60), _no_refresh, time.monotonic, time.time)
        for name in "ab"
    ]
    former = {"prod": RoleLogin("ann", Role.ADMIN), "other": TokenLogin("ann", Role.ADMIN, tokens[0])}
    session_id = shown.sessions.sign_in(None, former, time.monotonic())
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    session = shown.sessions.find(session_id, time.monotonic())
    asked = Visit(console=shown, request=Request(scope), session_id=session_id, session=session)
    attempt = SignInAttempts(lambda: "drawn").begin(None, cluster="other", then="/", now_s=0.0)
    signed_in = SignedIn(Identity("eve", None), tokens[1])
    begun = asyncio.run(begin_session(asked, attempt, signed_in, {"other": TokenLogin("eve", None, tokens[1])}))
    cookie = SimpleCookie(begun.headers["set-cookie"])
    now = shown.sessions.find(cookie[COOKIE].value, time.monotonic())
    assert now is not None
    assert {name: each.user for name, each in now.credentials.items()} == {"other": "eve"}
    assert [each.has_ended for each in tokens] == [True, False]
    assert shown.sessions.find(session_id, time.monotonic()) is None


def _no_refresh(_token: str) -> TokenAnswer:
    raise AssertionError("nobody asks for another token")


def test_no_pipeline_is_made_of_a_topic_with_fields_that_are_masked_for_the_user(console: Console) -> None:
    rule = MaskingRule(
        name="cards",
        topics=("payments",),
        fields=(masked_field("$.card"),),
        how=How.HIDE,
        exempt=frozenset({"role:admin"}),
    )
    cluster = ClusterSettings(name="prod", bootstrap="x:1", login="openid", connect_url="http://x:1")
    shown = replace(console, masking=Masking((rule,), b"secret"), clusters={"prod": cluster})
    assert "masked" in (why_no_pipeline(visit(shown, Role.EDITOR), "payments") or "")
    assert why_no_pipeline(visit(shown, Role.EDITOR), "flights") is None
    assert why_no_pipeline(visit(shown, Role.ADMIN), "payments") is None
    assert "takes the role editor" in (why_no_pipeline(visit(shown, Role.VIEWER), "flights") or "")
    without = replace(shown, clusters={"prod": replace(cluster, connect_url=None)})
    assert "knows no Connect workers" in (why_no_pipeline(visit(without, Role.ADMIN), "flights") or "")


def test_masking_rules_know_roles(console: Console) -> None:
    asked_for = []

    class Rules:
        def of(self, cluster: str, topic: str, who: list[str]) -> None:
            asked_for.append((cluster, topic, who))

    shown = visit(console, Role.EDITOR)
    object.__setattr__(console, "masking", Rules())
    shown.mask("payments")
    assert asked_for == [("prod", "payments", ["eve", "role:editor"])]


@pytest.mark.parametrize("login", [Credentials("role:admin", "x"), RoleLogin("role:admin", Role.VIEWER)])
def test_a_user_who_is_called_like_a_role_sees_no_more_than_others(console: Console, login: Login) -> None:
    rule = MaskingRule(
        name="cards",
        topics=("payments",),
        fields=(masked_field("$.card"),),
        how=How.HIDE,
        exempt=frozenset({"role:admin", "ann"}),
    )
    shown = replace(console, masking=Masking((rule,), b"secret"))
    asked = visit(shown, Role.VIEWER)
    assert asked.session is not None
    asked.session.credentials["prod"] = login
    assert asked.mask("payments")
    asked.session.credentials["prod"] = replace(login, user="ann")
    assert not asked.mask("payments")


async def test_a_session_that_is_over_gives_back_its_token_and_connections_that_nobody_else_has(
    console: Console,
) -> None:
    """Also where its browser never comes again."""
    console.sessions.on_end = console.end_logins
    tokens = AccessTokens(TokenAnswer(access_token="t", life_s=3600), _no_refresh, time.monotonic, time.time)
    token, password = TokenLogin("ann", None, tokens), Credentials("bob", "b")
    now_s = time.monotonic()
    for login, begun_s in ((token, now_s - 61), (password, now_s - 61), (password, now_s)):
        console.sessions.sign_in(None, {"prod": login}, begun_s)
        console.watches.of(console.clusters["prod"], login)
    assert len(console.watches) == 2
    console.end_over(now_s)
    assert tokens.has_ended
    assert len(console.watches) == 1
    assert len(console.sessions) == 1
