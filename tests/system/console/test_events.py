"""Events in the console: what a client of our own changes is told, with time and cause."""

import re

import pytest
from confluent_kafka.admin import NewPartitions
from playwright.sync_api import Page, expect

from ottla_operations.cluster.cluster_admin import ClusterAdmin
from ottla_operations.cluster.cluster_view import TOPIC_RESOURCE, ConfigChange
from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster
from tests.system.console.test_topics import make

pytestmark = pytest.mark.slow


def tells(page: Page, cluster: ShownCluster, words: str) -> bool:
    return words in page.request.get(f"{cluster.url}{cluster.pages}/events?q=changing").text()


def test_what_changes_is_told(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "changing")
    eventually(lambda: tells(page, shown_cluster, "was created"), "the topic is among the events")
    shown_cluster.admin.create_partitions([NewPartitions("changing", 3)])["changing"].result()
    eventually(lambda: tells(page, shown_cluster, "has 3 partitions"), "the new partitions are")
    with ClusterAdmin(shown_cluster.bootstrap, {}) as admin:
        admin.alter_configs([ConfigChange(TOPIC_RESOURCE, "changing", "retention.ms", "3600000")])
    eventually(lambda: tells(page, shown_cluster, "retention.ms is 3600000"), "the setting is")
    page.goto(f"{shown_cluster.pages}/events")
    page.get_by_label("Show").select_option("Settings")
    page.get_by_label("Search").fill("CHANGING retention")
    rows = page.get_by_role("group", name="Events").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(rows.nth(1).get_by_role("link")).to_have_text("changing")
    expect(page).to_have_url(re.compile(r"/events\?q=CHANGING.+retention&kind=settings$"))
    page.get_by_label("Search").fill("no such thing")
    expect(page.get_by_role("heading", name="No event is like that")).to_be_visible()
    page.goto(shown_cluster.pages)
    expect(page.get_by_role("group", name="Events").get_by_role("link", name="changing").first).to_be_visible()
