"""Signing in with an OpenID provider that others wrote: roles say what a user sees and does."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.child_process import ChildProcess
from tests.support.console.browser import leave_picture, new_page, serious_barriers
from tests.support.console.console_process import ConsoleProcess
from tests.support.console.visitor import Visitor
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.system.console.conftest import ShownCluster

pytestmark = pytest.mark.slow
PEOPLE = {"ann": "platform", "ben": "data", "eve": "staff", "nobody": "visitors"}


@dataclass(frozen=True, slots=True)
class RoleConsole:
    """A console with roles of the shown cluster.

    Attributes:
        url: of the console.
        provider: host and port of the OpenID provider.
        audit: file of the console's audit log.
    """

    url: str
    provider: str
    audit: Path

    def records(self, user: str) -> list[tuple[str, str, str]]:
        """Action, target and outcome of all that a user did."""
        found: list[dict[str, Any]] = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [(each["action"], each["target"], each["outcome"]) for each in found if each["user"] == user]


@pytest.fixture(scope="module")
def with_roles(shown_cluster: ShownCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoleConsole]:
    directory = tmp_path_factory.mktemp("roles")
    (port,) = free_ports(1)
    program = str(Path(sys.executable).with_name("oidc-provider-mock"))
    people = [json.dumps({"sub": name, "groups": [group]}) for name, group in PEOPLE.items()]
    arguments = [word for claims in people for word in ("--user-claims", claims)]
    provider = ChildProcess("provider", [program, "--port", str(port), *arguments], log=directory / "provider.log")
    address = f"{LOOPBACK}:{port}"
    settings = {
        "public.url": "{url}",
        "clusters": "local",
        "cluster.local.bootstrap.servers": shown_cluster.bootstrap,
        "cluster.local.connect.url": shown_cluster.connect_url,
        "cluster.local.login": "openid",
        "oidc.issuer": f"http://{address}",
        "oidc.client.id": "console",
        "oidc.client.secret": "secret",
        "oidc.viewer.groups": "staff",
        "oidc.editor.groups": "data",
        "oidc.admin.groups": "platform",
        "audit.log.path": str(directory / "audit.log"),
    }
    provider.start()
    try:
        eventually(lambda: _answers(address), "the provider answers")
        with ConsoleProcess(directory, settings) as running:
            yield RoleConsole(running.url, address, directory / "audit.log")
    finally:
        provider.stop()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/.well-known/openid-configuration").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def page(browser: Browser, with_roles: RoleConsole) -> Iterator[Page]:
    with new_page(browser, with_roles.url) as opened:
        yield opened


def sign_in(page: Page, with_roles: RoleConsole, user: str) -> None:
    page.get_by_role("link", name=f"Sign in with {with_roles.provider}").click()
    page.get_by_placeholder("sub").fill(user)
    page.get_by_role("button", name="Authorize").click()


def signed_in(with_roles: RoleConsole, user: str) -> Visitor:
    """A visitor without a browser who has signed in."""
    visitor = Visitor(with_roles.url)
    sent = visitor.get("/openid/begin?cluster=local")
    back = httpx.post(sent.headers["location"], data={"sub": user})
    assert visitor.get(back.headers["location"]).status_code == 303
    return visitor


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_admin_signs_in_creates_a_topic_and_signs_out(
    browser: Browser, with_roles: RoleConsole, shown_cluster: ShownCluster, scheme: Any
) -> None:
    topic = f"made-by-ann-{scheme}"
    with new_page(browser, with_roles.url, color_scheme=scheme) as page:
        page.goto("/clusters/local/topics")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to local")
        assert serious_barriers(page) == []
        leave_picture(page, f"openid-sign-in-{scheme}")
        sign_in(page, with_roles, "ann")
        expect(page).to_have_url(re.compile("/clusters/local/topics$"))
        expect(page.locator("form.user")).to_contain_text("ann admin")
        page.get_by_role("link", name="New topic").first.click()
        page.get_by_label("Name", exact=True).fill(topic)
        page.get_by_label("Replicas").fill("1")  # so that other tests can empty brokers
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(topic)
        assert topic in shown_cluster.admin.list_topics(timeout=10).topics
        assert ("topic.create", topic, "done") in with_roles.records("ann")
        assert serious_barriers(page) == []
        leave_picture(page, f"openid-signed-in-{scheme}")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Signed out")
        assert serious_barriers(page) == []
        leave_picture(page, f"openid-signed-out-{scheme}")
        page.goto("/clusters/local/topics")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to local")


def test_a_viewer_sees_topics_and_is_offered_nothing_that_changes_them(
    page: Page, with_roles: RoleConsole, shown_cluster: ShownCluster
) -> None:
    page.goto("/clusters/local/topics")
    sign_in(page, with_roles, "eve")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    expect(page.get_by_role("link", name="New topic")).to_have_count(0)
    page.goto("/clusters/local/security/acls")
    expect(page.get_by_role("alert")).to_contain_text("takes the role admin, and eve has the role viewer")
    leave_picture(page, "openid-refused")
    with signed_in(with_roles, "eve") as visitor:
        answer = visitor.post(
            "/clusters/local/new-topic", "/clusters/local/topics", name="made-by-eve", partitions="1"
        )
        assert (answer.status_code, "takes the role editor" in answer.text) == (403, True)
    assert "made-by-eve" not in shown_cluster.admin.list_topics(timeout=10).topics
    assert ("form", "/clusters/local/new-topic", "refused") in with_roles.records("eve")


def test_an_editor_creates_topics_and_does_not_meddle_with_brokers(
    with_roles: RoleConsole, shown_cluster: ShownCluster
) -> None:
    with signed_in(with_roles, "ben") as visitor:
        page = "/clusters/local/new-topic"
        assert visitor.post(page, name="made-by-ben", partitions="1", replicas="1").status_code == 303
        assert "made-by-ben" in shown_cluster.admin.list_topics(timeout=10).topics
        answer = visitor.post("/clusters/local/moves/cancel", page)
        assert (answer.status_code, "takes the role admin" in answer.text) == (403, True)
    assert ("moves.cancel", "local", "refused") in with_roles.records("ben")


def test_whoever_is_in_none_of_the_groups_does_not_get_in(page: Page, with_roles: RoleConsole) -> None:
    page.goto("/clusters/local/topics")
    sign_in(page, with_roles, "nobody")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not signed in")
    expect(page.get_by_role("alert")).to_contain_text("nobody has no role here")
    assert serious_barriers(page) == []
    page.goto("/clusters/local/topics")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to local")
