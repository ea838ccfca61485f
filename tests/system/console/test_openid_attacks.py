"""Answers of an OpenID provider, and browsers that come back from it, that must sign nobody in."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from tests.support.console.console_process import ConsoleProcess
from tests.support.console.visitor import Visitor
from tests.support.free_ports import LOOPBACK
from tests.support.servers.issuer import Issuer
from tests.support.servers.openid_provider import CLIENT_ID, CLIENT_SECRET, OpenIdServer

pytestmark = pytest.mark.slow
PAGE = "/clusters/prod/openid-test"


@dataclass(frozen=True, slots=True)
class Shown:
    """A console of a cluster that nobody can reach, and its provider."""

    url: str
    provider: OpenIdServer
    audit: Path

    def last_record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.audit.read_text().splitlines()[-1])
        return record


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    directory = tmp_path_factory.mktemp("openid")
    with OpenIdServer() as provider:
        settings = {
            "public.url": "{url}",
            "clusters": "prod",
            "cluster.prod.bootstrap.servers": f"{LOOPBACK}:1",
            "cluster.prod.login": "openid",
            "oidc.issuer": provider.url,
            "oidc.client.id": CLIENT_ID,
            "oidc.client.secret": CLIENT_SECRET,
            "oidc.viewer.groups": "staff",
            "audit.log.path": str(directory / "audit.log"),
        }
        with ConsoleProcess(directory, settings) as console:
            yield Shown(console.url, provider, directory / "audit.log")


@pytest.fixture
def shown(running: Shown) -> Shown:
    """The console with a provider that tells the truth."""
    provider = running.provider
    provider.signer, provider.id_token, provider.claims = provider.issuer, None, {"groups": ["staff"]}
    return running


@pytest.fixture
def visitor(shown: Shown) -> Iterator[Visitor]:
    with Visitor(shown.url) as opened:
        yield opened


def begun(visitor: Visitor, then: str = PAGE) -> str:
    """Where the provider sends the browser back to, as soon as its user has signed in there."""
    sent = visitor.client.get("/openid/begin", params={"cluster": "prod", "then": then})
    assert sent.status_code == 303
    return httpx.get(sent.headers["location"]).headers["location"]


def is_signed_in(visitor: Visitor) -> bool:
    location = visitor.get("/clusters/prod/connect").headers.get("location", "")
    return "/sign-in" not in location


def refused(visitor: Visitor, callback: str, told: str) -> None:
    answer = visitor.get(callback)
    assert (answer.status_code, told in answer.text) == (403, True), answer.text
    assert not is_signed_in(visitor)


def test_a_sign_in_leads_to_the_page_that_was_asked_for_with_a_session_of_its_own(
    shown: Shown, visitor: Visitor
) -> None:
    visitor.client.cookies.set("ottla-console", "planted")
    callback = begun(visitor)
    asked = dict(parse_qsl(urlsplit(callback).query))
    answer = visitor.get(callback)
    assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
    cookies = answer.headers.get_list("set-cookie")
    (session,) = [each for each in cookies if each.startswith("ottla-console=")]
    assert "HttpOnly" in session
    assert "SameSite=lax" in session
    assert "planted" not in session
    assert is_signed_in(visitor)
    record = shown.last_record()
    assert (record["user"], record["action"], record["outcome"], record["role"]) == (
        "ann",
        "sign-in",
        "done",
        "viewer",
    )
    assert asked["code"] not in shown.audit.read_text()
    refused_again = visitor.get(callback)
    assert (refused_again.status_code, "used already" in refused_again.text) == (403, True)


def test_a_callback_that_another_browser_has_begun_signs_nobody_in(shown: Shown, visitor: Visitor) -> None:
    with Visitor(shown.url) as attacker:
        callback = begun(attacker)
        refused(visitor, callback, "was not begun in this browser")
        begun(visitor)  # with a cookie of its own, too
        refused(visitor, callback, "was not begun in this browser")
        assert attacker.get(callback).status_code == 303


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda url: url.replace("state=", "state=x"), "was not begun in this browser"),
        (lambda url: url.partition("&state=")[0], "was not begun in this browser"),
        (lambda url: url.replace("code=", "cod="), "has no code"),
        (lambda url: url.replace("code=", "code=x"), "the code is not good"),
        (lambda url: f"{url}&iss=https://evil.example", "of another provider"),
        (lambda url: f"{url}&error=access_denied&error_description=<script>", "&lt;script&gt;"),
    ],
)
def test_an_address_that_was_changed_signs_nobody_in(
    visitor: Visitor, change: Callable[[str], str], told: str
) -> None:
    refused(visitor, change(begun(visitor)), told)


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"nonce": "another"}, "another attempt"),
        ({"nonce": None}, "another attempt"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"aud": "another"}, "another audience"),
        ({"aud": [CLIENT_ID, "another"]}, "another client"),
        ({"exp": 1}, "expired"),
        ({"groups": ["others"]}, "ann has no role here"),
        ({"sub": ""}, "names nobody"),
    ],
)
def test_a_token_that_is_not_for_this_sign_in_is_refused(
    shown: Shown, visitor: Visitor, claims: dict[str, object], told: str
) -> None:
    shown.provider.claims.update(claims)
    refused(visitor, begun(visitor), told)
    assert (shown.last_record()["outcome"], told in shown.last_record()["reason"]) == ("refused", True)


def test_a_token_that_another_key_has_signed_or_none_is_refused(shown: Shown, visitor: Visitor) -> None:
    shown.provider.signer = Issuer(shown.provider.issuer.key.kid or "")
    refused(visitor, begun(visitor), "no key of the JSON Web Key Set")
    unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ."
    shown.provider.id_token = unsigned
    refused(visitor, begun(visitor), "the algorithm none")
    shown.provider.id_token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2ln"
    refused(visitor, begun(visitor), "the algorithm HS256")


@pytest.mark.parametrize(
    "then",
    ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/x\r\nset-cookie: a=b"],
)
def test_nobody_is_sent_elsewhere_afterwards(visitor: Visitor, then: str) -> None:
    assert visitor.get(begun(visitor, then)).headers["location"] == "/"


def test_the_host_that_a_request_names_does_not_become_the_address_that_the_provider_sends_back_to(
    shown: Shown, visitor: Visitor
) -> None:
    sent = visitor.client.get(
        "/openid/begin?cluster=prod", headers={"host": f"localhost:{urlsplit(shown.url).port}", "origin": shown.url}
    )
    asked = dict(parse_qsl(urlsplit(sent.headers["location"]).query))
    assert asked["redirect_uri"] == f"{shown.url}/openid/callback"
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")


def test_a_password_signs_nobody_in(visitor: Visitor) -> None:
    token = visitor.token("/clusters/prod/sign-in")
    fields = {"token": token, "user": "ann", "password": "x"}
    answer = visitor.client.post("/clusters/prod/sign-in", data=fields)
    assert (answer.status_code, "OpenID provider" in answer.text) == (400, True)
    assert not is_signed_in(visitor)


def test_a_session_is_worth_nothing_after_signing_out(visitor: Visitor) -> None:
    visitor.get(begun(visitor))
    cookie = visitor.client.cookies["ottla-console"]
    out = visitor.post("/sign-out", "/clusters/prod/connect")
    assert (out.status_code, out.headers["location"]) == (303, "/openid/signed-out")
    visitor.client.cookies.set("ottla-console", cookie)
    assert not is_signed_in(visitor)
