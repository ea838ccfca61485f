"""Every view: without barriers by axe, in both themes, on a narrow screen; and what other sites cannot do."""

import httpx
import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, expect

from tests.support.console.browser import NARROW, WIDE, leave_picture, new_page, serious_barriers
from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster
from tests.system.console.test_connect import ORDERS, create, lines_sink
from tests.system.console.test_groups import commit
from tests.system.console.test_topics import make

pytestmark = pytest.mark.slow

VIEWS = {
    "overview": "",
    "topics": "/topics",
    "new-topic": "/new-topic",
    "topic": "/topics/looked-at",
    "topic-settings": "/topics/looked-at/settings",
    "messages": "/topics/looked-at/messages",
    "message": "/topics/looked-at/messages/0/0",
    "publish": "/topics/looked-at/publish?copy=0:0",
    "tail": "/topics/looked-at/tail",
    "sql": "/topics/looked-at/sql?q=SELECT value, octet_length(value::BLOB) AS n, flight FROM records",
    "pipeline": "/topics/looked-at/pipeline?q=SELECT value FROM records",
    "topic-consumers": "/topics/looked-at/consumers",
    "topic-growth": "/topics/looked-at/growth",
    "groups": "/groups",
    "group": "/groups/looked-at",
    "group-reset": "/groups/looked-at/reset?to=earliest",
    "brokers": "/brokers",
    "broker": "/brokers/1",
    "elections": "/elections",
    "rebalance": "/rebalance",
    "broker-gone": "/brokers/77/decommission",
    "moves": "/moves",
    "events": "/events",
    "security-users": "/security/users",
    "security-new-user": "/security/new-user",
    "security-acls": "/security/acls",
    "security-quotas": "/security/quotas",
    "security-set-quota": "/security/set-quota?name=producer_byte_rate&user-is=named&user=ann",
    "security-audit": "/security/audit",
    "state": "/state",
    "mirrors": "/mirrors",
    "verification": "/verification",
    "connect": "/connect",
    "connect-workers": "/connect/workers",
    "connect-plugins": "/connect/plugins",
    "connector-new": "/connect/new?class=ottla_file.FileSink",
    "connector-edit": "/connect/connectors/looked-at/edit",
    "connector-edit-json": "/connect/connectors/looked-at/edit?as=json",
    "dead-letters": "/connect/connectors/sink-looked-at/dead-letters",
    "spark": "/spark",
    "connector": "/connect/connectors/looked-at",
    "connector-settings": "/connect/connectors/looked-at/config",
    "connector-offsets": "/connect/connectors/looked-at/offsets",
    "connector-logs": "/connect/connectors/looked-at/logs",
    "problem": "/topics/not-there",
}
STATUS = {"problem": 404}


@pytest.fixture(scope="module", autouse=True)
def looked_at(shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "looked-at")
    commit(shown_cluster, "looked-at", "looked-at", 0)
    create(shown_cluster, "looked-at", ORDERS)
    create(shown_cluster, "sink-looked-at", lines_sink(shown_cluster, "looked-at"))
    producer = Producer({"bootstrap.servers": shown_cluster.bootstrap})
    for value in (b'{"flight": "UA 1545", "delay": 2, "legs": [{"from": "EWR"}]}', b"text " * 400, bytes(range(256))):
        producer.produce("looked-at", value, b"a key", headers=[("trace", b"4711")])
    assert producer.flush(30) == 0
    for view, path in VIEWS.items():
        wanted = STATUS.get(view, 200)
        address = f"{shown_cluster.url}{shown_cluster.pages}{path}"
        eventually(
            lambda address=address, wanted=wanted: httpx.get(address).status_code == wanted, f"{path} is there"
        )


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_a_view_has_no_barriers(
    browser: Browser, shown_cluster: ShownCluster, view: str, theme: str, size: str
) -> None:
    viewport = WIDE if size == "wide" else NARROW
    with new_page(browser, shown_cluster.url, viewport=viewport, color_scheme=theme) as page:
        page.goto(f"{shown_cluster.pages}{VIEWS[view]}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        if view == "overview":
            expect(page.locator("#health h2")).to_be_visible()
        assert serious_barriers(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        leave_picture(page, f"{view}-{theme}-{size}")


def test_a_theme_stays_chosen(page: Page, shown_cluster: ShownCluster) -> None:
    page.goto(f"{shown_cluster.pages}/topics")
    page.get_by_role("button", name="Dark").click()
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(f"{shown_cluster.url}{shown_cluster.pages}/topics")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_a_page_of_another_site_changes_nothing(shown_cluster: ShownCluster) -> None:
    headers = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    address = f"{shown_cluster.url}{shown_cluster.pages}/topics/looked-at/delete"
    assert httpx.post(address, data={"confirm": "looked-at"}, headers=headers).status_code == 403
    own = {"origin": shown_cluster.url, "sec-fetch-site": "same-origin"}
    assert httpx.post(address, data={"confirm": "looked-at"}, headers=own).status_code == 400  # it has no token
    named = {"host": "rebound.example"}
    assert httpx.get(f"{shown_cluster.url}{shown_cluster.pages}", headers=named).status_code == 421
    assert "looked-at" in shown_cluster.admin.list_topics(timeout=10).topics
