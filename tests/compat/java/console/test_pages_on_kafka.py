"""Users, access control lists and quotas of Apache Kafka in the console; and what it says of what is not there."""

import pytest
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from playwright.sync_api import Page, expect

from tests.support.clusters.ottla_command import Ottla
from tests.support.console.browser import leave_picture, serious_barriers
from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster

pytestmark = pytest.mark.slow

WORD = "a word of the test's"
SAYS = {
    "": "Rates come after two looks",
    "/brokers": "in sync",
    "/state": "Other clusters keep their state elsewhere",
    "/mirrors": "only clusters of Ottla have them",
    "/connect": "cluster.kafka.connect.url",
    "/spark": "cluster.kafka.connect.url",
    "/security/users": "No users",
    "/security/quotas": "No quotas",
}
"""What stands on pages, of that which Kafka lacks and of that which is not there."""


@pytest.mark.parametrize("path", SAYS)
def test_what_is_not_there_is_said_with_the_reason(page: Page, shown_cluster: ShownCluster, path: str) -> None:
    page.goto(f"{shown_cluster.pages}{path}")
    expect(page.locator("main")).to_contain_text(SAYS[path])
    assert serious_barriers(page) == []
    leave_picture(page, f"kafka{path.replace('/', '-')}")


def users(cluster: ShownCluster) -> set[str]:
    return set(cluster.admin.describe_user_scram_credentials().result(30))


def test_a_user_is_created_and_deleted(page: Page, shown_cluster: ShownCluster) -> None:
    page.goto(f"{shown_cluster.pages}/security/new-user")
    page.get_by_label("Name").fill("flights")
    page.get_by_label("Password", exact=True).fill(WORD)
    page.get_by_label("Password once more").fill(WORD)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_contain_text("flights")
    eventually(lambda: "flights" in users(shown_cluster), "the user is there")
    page.goto(f"{shown_cluster.pages}/security/users/flights")
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("flights")
    dialog.get_by_role("button", name="Delete").click()
    eventually(lambda: "flights" not in users(shown_cluster), "the user is gone")


def lists_of(cluster: ShownCluster, principal: str) -> list[tuple[str, str]]:
    wanted = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, principal, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return sorted((each.name, each.operation.name) for each in cluster.admin.describe_acls(wanted).result(30))


def test_access_control_lists_are_created_and_deleted(page: Page, shown_cluster: ShownCluster) -> None:
    page.goto(f"{shown_cluster.pages}/security/new-acl")
    page.get_by_label("Who").fill("billing")
    page.get_by_label("What", exact=True).fill("read")
    page.get_by_label("Of what, one a line").fill("topic:bills-*\ngroup:bills")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Create 2").click()
    expect(page.get_by_role("status")).to_have_text("2 access control lists were created.")
    wanted = [("bills", "READ"), ("bills-", "READ")]
    eventually(lambda: lists_of(shown_cluster, "User:billing") == wanted, "they are there")
    page.goto(f"{shown_cluster.pages}/security/acls?principal=billing")
    page.get_by_role("link", name="Delete read on topic:bills-* of User:billing…").click()
    page.get_by_role("button", name="Delete 1").click()
    eventually(lambda: lists_of(shown_cluster, "User:billing") == wanted[:1], "one is gone")


def test_a_quota_is_set(page: Page, shown_cluster: ShownCluster) -> None:
    page.goto(f"{shown_cluster.pages}/security/set-quota?name=producer_byte_rate&user-is=named&user=ann")
    page.get_by_label("Value").fill("1048576")
    page.get_by_role("button", name="Set").click()
    ottla = Ottla(shown_cluster.bootstrap)
    wanted = [{"entity": {"user": "ann"}, "quotas": {"producer_byte_rate": 1048576.0}}]
    eventually(lambda: ottla.json("quota", "list")["quotas"] == wanted, "the quota is there")
