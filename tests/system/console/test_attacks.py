"""What nobody can do by the console: without the right, without a session, from elsewhere, by what they write."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from playwright.sync_api import Browser, expect

from ottla_console.pages.all_pages import VIEWS
from tests.support.clusters.ottla_command import Ottla
from tests.support.clusters.secured_listeners import PASSWORD
from tests.support.console.browser import new_page
from tests.support.console.console_process import ConsoleProcess
from tests.support.console.visitor import Visitor
from tests.support.eventually import eventually
from tests.system.console.conftest import GuardedConsole

pytestmark = pytest.mark.slow

PAGES = "/clusters/guarded"
OPEN_TO_ALL = {
    "/clusters/{cluster:segment}/sign-in",
    "/sign-out",
    "/theme",
    "/connect/new/check",
    "/connect/connectors/{connector:segment}/edit/check",
}
"""Forms that change nothing in a cluster."""
ACL = [2, 3, "seen", "User:ann", "*", 3, 3]
CREATION = json.dumps([ACL])
ACTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "/new-topic": ("/new-topic", {"name": "made-by-ann"}),
    "/topics/{topic:segment}/partitions": ("/topics/seen/partitions", {"partitions": "9"}),
    "/topics/{topic:segment}/delete": ("/topics/seen/delete", {"confirm": "seen"}),
    "/topics/{topic:segment}/settings": ("/topics/seen/settings", {"name": "retention.ms", "value": "1000"}),
    "/topics/{topic:segment}/publish": ("/topics/seen/publish", {"value": "from ann"}),
    "/topics/{topic:segment}/pipeline": (
        "/topics/seen/pipeline",
        {"q": "SELECT 1", "name": "p", "target": "p", "mode": "append", "checkpoint": "/c"},
    ),
    "/groups/{group:segment}/delete": ("/groups/seen/delete", {"confirm": "seen"}),
    "/groups/{group:segment}/reset": ("/groups/seen/reset", {"plan": '[["seen", 0, 1, 0]]'}),
    "/elections": ("/elections", {"plan": ""}),
    "/rebalance": ("/rebalance", {"plan": "made up"}),
    "/brokers/{broker:segment}/decommission": ("/brokers/1/decommission", {"plan": "made up", "confirm": "1"}),
    "/brokers/{broker:segment}/unregister": ("/brokers/9/unregister", {"confirm": "9"}),
    "/moves/begin-no-more": ("/moves/begin-no-more", {}),
    "/moves/cancel": ("/moves/cancel", {}),
    "/topics/{topic:segment}/empty": ("/topics/seen/empty", {"confirm": "seen"}),
    "/verification": ("/verification", {}),
    "/verification/end": ("/verification/end", {}),
    "/connect/new": ("/connect/new", {}),
    "/connect/connectors/{connector:segment}/delete": ("/connect/connectors/a/delete", {"confirm": "a"}),
    "/connect/connectors/{connector:segment}/do/{verb:segment}": ("/connect/connectors/a/do/pause", {}),
    "/connect/connectors/{connector:segment}/edit": ("/connect/connectors/a/edit", {}),
    "/connect/connectors/{connector:segment}/offsets": ("/connect/connectors/a/offsets", {}),
    "/connect/connectors/{connector:segment}/tasks/{task:segment}/restart": (
        "/connect/connectors/a/tasks/0/restart",
        {},
    ),
    "/connect/connectors/{connector:segment}/dead-letters/{partition:segment}/{offset:segment}": (
        "/connect/connectors/a/dead-letters/0/0",
        {},
    ),
    "/mirrors/flows/{flow:segment}": ("/mirrors/flows/a", {}),
    "/mirrors/links/{link:segment}": ("/mirrors/links/a", {}),
    "/mirrors/links/{link:segment}/promote": ("/mirrors/links/a/promote", {"confirm": "a"}),
    "/security/new-user": (
        "/security/new-user",
        {"name": "eve", "password": "eve's word", "again": "eve's word", "sha512": "1"},
    ),
    "/security/users/{user:segment}/password": ("/security/users/ann/password", {"password": "new", "again": "new"}),
    "/security/users/{user:segment}/delete": ("/security/users/ann/delete", {"confirm": "ann"}),
    "/security/new-acl": ("/security/new-acl", {"plan": CREATION}),
    "/security/delete-acls": ("/security/delete-acls", {"plan": json.dumps([[2, 3, "seen", "User:ann", "*", 8, 3]])}),
    "/security/set-quota": (
        "/security/set-quota",
        {"user-is": "named", "user": "ann", "name": "producer_byte_rate", "value": "1"},
    ),
    "/security/remove-quota": (
        "/security/remove-quota",
        {"user-is": "named", "user": "owner", "name": "producer_byte_rate"},
    ),
}
"""By the path of a view that changes something: what is asked for. A new view needs a row here."""
SCRIPT = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'"


@pytest.fixture(scope="module")
def seen(guarded_console: GuardedConsole) -> None:
    """A topic and a group that ann may describe, and a quota."""
    console = guarded_console
    console.admin.create_topics([NewTopic("seen", 1, 1)])["seen"].result(30)
    lists = [
        AclBinding(kind, "seen", ResourcePatternType.LITERAL, "User:ann", "*", operation, AclPermissionType.ALLOW)
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
        for operation in (AclOperation.DESCRIBE,)
    ]
    for created in console.admin.create_acls(lists).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": console.bootstrap})
    producer.produce("seen", SCRIPT.encode(), SCRIPT.encode(), headers=[(SCRIPT, SCRIPT.encode())])
    assert producer.flush(30) == 0
    for group in ("seen", SCRIPT):
        wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition("seen", 0, 1)])]

        def is_committed(group: str = group, wanted: Any = wanted) -> bool:  # its coordinator may still be loading
            answered = console.admin.alter_consumer_group_offsets(wanted)[group].result(30).topic_partitions
            return all(each.error is None for each in answered)

        eventually(is_committed, f"{group} has an offset")
    Ottla(console.bootstrap).run("quota", "set", "--user", "owner", "producer_byte_rate=1048576000")


@pytest.fixture
def ann(guarded_console: GuardedConsole, seen: None) -> Iterator[Visitor]:
    with Visitor(guarded_console.url) as visitor:
        assert visitor.sign_in("guarded", "ann", PASSWORD).status_code == 303
        eventually(lambda: visitor.get(f"{PAGES}/topics/seen").status_code == 200, "the topic is seen")
        yield visitor


@pytest.fixture
def owner(guarded_console: GuardedConsole, seen: None) -> Iterator[Visitor]:
    with Visitor(guarded_console.url) as visitor:
        assert visitor.sign_in("guarded", "owner", PASSWORD).status_code == 303
        yield visitor


def state(console: GuardedConsole) -> dict[str, Any]:
    """What the actions would change."""
    ottla = Ottla(console.bootstrap)
    topics = console.admin.list_topics(timeout=30).topics
    resource = ConfigResource(ResourceType.TOPIC, "seen")
    consumer = Consumer({"bootstrap.servers": console.bootstrap, "group.id": "seen"})
    place = TopicPartition("seen", 0)
    try:
        ends, committed = consumer.get_watermark_offsets(place, timeout=30), consumer.committed([place], timeout=30)
    finally:
        consumer.close()
    return {
        "topics": {name: len(each.partitions) for name, each in topics.items()},
        "retention": console.admin.describe_configs([resource])[resource].result(30)["retention.ms"].value,
        "ends": ends,
        "committed": committed[0].offset,
        "users": ottla.json("user", "list"),
        "acls": ottla.json("acl", "list"),
        "quotas": ottla.json("quota", "list"),
    }


def changing() -> list[str]:
    """The paths of all views that change something in a cluster."""
    return [each.path for each in VIEWS if each.method == "POST" and each.path not in OPEN_TO_ALL]


def refused_everywhere(visitor: Visitor, token: str, headers: dict[str, str], status: int) -> None:
    for path, (address, form) in ACTIONS.items():
        answer = visitor.client.post(f"{PAGES}{address}", data={**form, "token": token}, headers=headers)
        assert answer.status_code == status, path


def test_each_view_that_changes_something_is_tried() -> None:
    assert set(changing()) == set(ACTIONS)


def test_without_the_right_no_action_has_an_effect(guarded_console: GuardedConsole, ann: Visitor) -> None:
    before = state(guarded_console)
    token = ann.token(f"{PAGES}/topics")
    for path, (address, form) in ACTIONS.items():
        answer = ann.client.post(f"{PAGES}{address}", data={**form, "token": token})
        assert 400 <= answer.status_code < 600, path
        assert 'role="alert"' in answer.text, path
    assert state(guarded_console) == before
    records = [json.loads(line) for line in guarded_console.audit.read_text().splitlines()]
    done = [each for each in records if each["user"] == "ann" and each["action"] != "sign-in"]
    assert done
    assert {each["outcome"] for each in done} <= {"failed", "refused"}


def test_from_elsewhere_or_without_a_token_no_action_is_carried_out(
    guarded_console: GuardedConsole, owner: Visitor, ann: Visitor
) -> None:
    before = state(guarded_console)
    token = owner.token(f"{PAGES}/topics")
    for elsewhere in (
        {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "null", "sec-fetch-site": "same-origin"},
        {"origin": guarded_console.url, "sec-fetch-site": "same-site"},
    ):
        refused_everywhere(owner, token, elsewhere, 403)
    for wrong in ("", "0" * 64, ann.token(f"{PAGES}/topics")):
        refused_everywhere(owner, wrong, {}, 400)
    assert state(guarded_console) == before


def test_a_session_that_has_ended_or_was_made_up_opens_nothing(
    guarded_console: GuardedConsole, owner: Visitor
) -> None:
    before = state(guarded_console)
    token = owner.token(f"{PAGES}/topics")
    stolen = dict(owner.client.cookies)
    owner.post("/sign-out", f"{PAGES}/topics")
    with Visitor(guarded_console.url) as thief:
        for cookies in (stolen, {"ottla-console": "made up"}, {}):
            thief.client.cookies.clear()
            thief.client.cookies.update(cookies)
            refused_everywhere(thief, token, {}, 303)
            assert "sign-in" in thief.get(f"{PAGES}/topics").headers["location"]
        # An id that somebody planted is worth nothing after the sign-in.
        token = thief.token(f"{PAGES}/sign-in")
        form = {"token": token, "user": "owner", "password": PASSWORD}
        planted = {"cookie": "ottla-console=planted"}
        answer = thief.client.post(f"{PAGES}/sign-in", data=form, headers=planted)
        assert answer.status_code == 303
        assert "planted" not in answer.headers["set-cookie"]
        assert thief.client.get(f"{PAGES}/topics", headers=planted).status_code == 303
    assert state(guarded_console) == before


def test_a_session_ends_after_its_time(guarded_console: GuardedConsole, tmp_path: Path) -> None:
    settings = {
        "clusters": "guarded",
        "cluster.guarded.bootstrap.servers": guarded_console.sasl,
        "cluster.guarded.client.security.protocol": "SASL_PLAINTEXT",
        "cluster.guarded.client.sasl.mechanism": "PLAIN",
        "session.lifetime.ms": "2000",
    }
    with ConsoleProcess(tmp_path, settings) as console, Visitor(console.url) as visitor:
        assert visitor.sign_in("guarded", "ann", PASSWORD).status_code == 303
        eventually(lambda: visitor.get(f"{PAGES}/topics").status_code == 303, "the session has ended")
        assert visitor.client.post(f"{PAGES}/new-topic", data={"name": "late"}).status_code == 303


def test_scripts_in_whatever_a_cluster_tells_are_shown_and_not_run(
    browser: Browser, guarded_console: GuardedConsole, owner: Visitor
) -> None:
    Ottla(guarded_console.bootstrap).run("acl", "add", SCRIPT, "read", f"group:{SCRIPT}")
    Ottla(guarded_console.bootstrap).run("quota", "set", "--user", SCRIPT, "producer_byte_rate=1048576000")
    form = {"password": "a word", "again": "a word", "sha512": "1"}
    assert owner.post(f"{PAGES}/security/new-user", **form, name=SCRIPT).status_code == 303
    script = quote(SCRIPT, safe="")
    shown = [
        "/topics/seen/messages",
        f"/topics/seen/messages?q={script}",
        "/topics/seen/messages/0/0",
        "/topics/seen/publish?copy=0:0",
        f"/topics?q={script}",
        f"/topics/{script}",
        "/groups",
        f"/groups/{script}",
        "/security/users",
        f"/security/users/{script}",
        "/security/acls",
        f"/security/delete-acls?principal={script}",
        "/security/quotas",
        "/security/audit",
        f"/topics/seen/sql?q={script}",
    ]
    with new_page(browser, guarded_console.url) as page:
        page.goto(f"{PAGES}/groups")
        page.get_by_label("User").fill("owner")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        for path in shown:
            page.goto(f"{PAGES}{path}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert re.search("&lt;script&gt;|&lt;script>", page.content()), path
            assert page.evaluate("window.hacked === undefined"), path
    for setting in ({"name": SCRIPT, "value": "1"}, {"name": "cleanup.policy", "value": SCRIPT}):
        answer = owner.post(f"{PAGES}/topics/seen/settings", **setting)
        assert answer.status_code >= 400
        assert "<script>window" not in answer.text
