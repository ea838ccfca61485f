"""Users, access control lists and quotas in the console, from the form to the effect; and its audit log."""

import json
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from playwright.sync_api import Browser, expect

from ottla_operations.kafka_access import LoginRefused, checked_admin_client
from tests.support.clusters.ottla_command import Ottla
from tests.support.clusters.secured_listeners import PASSWORD
from tests.support.console.browser import new_page, serious_barriers
from tests.support.console.visitor import Visitor
from tests.support.eventually import eventually
from tests.system.console.conftest import GuardedConsole

pytestmark = pytest.mark.slow

PAGES = "/clusters/guarded/security"
WORD, OTHER_WORD = "first word of flights", "second word of flights"


def lets_in(console: GuardedConsole, user: str, password: str) -> bool:
    settings = {
        "bootstrap.servers": console.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }
    try:
        checked_admin_client(settings)
    except LoginRefused:
        return False
    return True


def lists_of(console: GuardedConsole, principal: str) -> list[tuple[str, str]]:
    wanted = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, principal, None, AclOperation.ANY, AclPermissionType.ANY
    )
    found = console.admin.describe_acls(wanted).result(30)
    return sorted((each.name, each.operation.name) for each in found)


def test_a_user_is_created_given_another_password_and_deleted(guarded_console: GuardedConsole) -> None:
    with Visitor(guarded_console.url) as owner:
        owner.sign_in("guarded", "owner", PASSWORD)
        form = {"name": "flights", "password": WORD, "again": WORD, "sha512": "1"}
        assert owner.post(f"{PAGES}/new-user", **{**form, "again": "other"}).status_code == 400
        made = owner.post(f"{PAGES}/new-user", **form)
        assert made.status_code == 303
        eventually(lambda: lets_in(guarded_console, "flights", WORD), "the user is let in")
        assert "SCRAM-SHA-512" in owner.get(f"{PAGES}/users?q=flights").text
        again = owner.post(f"{PAGES}/new-user", **form)
        assert (again.status_code, "already" in again.text, WORD in again.text) == (409, True, False)

        page = f"{PAGES}/users/flights"
        owner.post(f"{page}/password", page, password=OTHER_WORD, again=OTHER_WORD)
        eventually(lambda: lets_in(guarded_console, "flights", OTHER_WORD), "the new password lets in")
        assert not lets_in(guarded_console, "flights", WORD)

        assert owner.post(f"{page}/delete", page, confirm="flight").status_code == 403
        assert owner.post(f"{page}/delete", page, confirm="flights").status_code == 303
        eventually(lambda: not lets_in(guarded_console, "flights", OTHER_WORD), "the user is let in no more")
    log = guarded_console.audit.read_text()
    actions = [each["action"] for each in map(json.loads, log.splitlines()) if each["target"] == "flights"]
    assert actions == ["user.create", "user.create", "user.password", "user.delete", "user.delete"]
    assert WORD not in log
    assert OTHER_WORD not in log


def test_access_control_lists_are_created_and_deleted_after_a_preview(
    browser: Browser, guarded_console: GuardedConsole
) -> None:
    with new_page(browser, guarded_console.url) as page:
        page.goto(f"{PAGES}/new-acl")
        page.get_by_label("User").fill("owner")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("Who").fill("billing")
        page.get_by_label("What", exact=True).fill("read, write")
        page.get_by_label("Of what, one a line").fill("topic:bills-*\ngroup:bills")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("region", name="Preview").get_by_role("row")).to_have_count(5)
        assert serious_barriers(page) == []
        assert lists_of(guarded_console, "User:billing") == []
        page.get_by_role("button", name="Create 4").click()
        expect(page.get_by_role("status")).to_have_text("4 access control lists were created.")
        wanted = [("bills", "READ"), ("bills", "WRITE"), ("bills-", "READ"), ("bills-", "WRITE")]
        eventually(lambda: lists_of(guarded_console, "User:billing") == wanted, "they are there")
        page.goto(f"{PAGES}/acls?principal=billing")
        assert serious_barriers(page) == []
        page.get_by_role("link", name="Delete write on topic:bills-* of User:billing…").click()
        assert serious_barriers(page) == []
        page.get_by_role("button", name="Delete 1").click()
        expect(page.get_by_role("status")).to_have_text("1 access control list was deleted.")
        eventually(lambda: lists_of(guarded_console, "User:billing") == wanted[:3], "it is gone")
        page.goto(f"{PAGES}/audit")
        expect(page.get_by_role("cell", name="acl.delete").first).to_be_visible()
        assert serious_barriers(page) == []


def test_a_quota_is_set_and_removed(guarded_console: GuardedConsole) -> None:
    ottla = Ottla(guarded_console.bootstrap)

    def quotas() -> list[dict[str, Any]]:
        return [each for each in ottla.json("quota", "list")["quotas"] if each["entity"] == {"user": "flights"}]

    whose = {"user-is": "named", "user": "flights", "name": "producer_byte_rate"}
    with Visitor(guarded_console.url) as owner:
        owner.sign_in("guarded", "owner", PASSWORD)
        assert owner.post(f"{PAGES}/set-quota", **whose, value="-1").status_code == 400
        assert owner.post(f"{PAGES}/set-quota", **whose, value="1048576").status_code == 303
        wanted = [{"entity": {"user": "flights"}, "quotas": {"producer_byte_rate": 1048576.0}}]
        eventually(lambda: quotas() == wanted, "the quota is there")
        assert "user flights" in owner.get(f"{PAGES}/quotas").text
        assert owner.post(f"{PAGES}/remove-quota", f"{PAGES}/quotas", **whose).status_code == 303
        eventually(lambda: not quotas(), "the quota is gone")


def test_who_may_not_see_lists_sees_of_the_audit_log_what_is_theirs(guarded_console: GuardedConsole) -> None:
    with Visitor(guarded_console.url) as ann:
        ann.sign_in("guarded", "ann", PASSWORD)
        shown = ann.get(f"{PAGES}/audit").text
        assert "by you" in shown
        assert "<td>ann</td>" in shown
        assert "<td>owner</td>" not in shown
