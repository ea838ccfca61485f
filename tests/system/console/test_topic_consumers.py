"""The consumers of a topic: groups with members and with offsets, and what they have yet to read."""

import pytest
from confluent_kafka import Consumer
from playwright.sync_api import Page, expect

from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster
from tests.system.console.test_groups import HOSTILE, commit, fill
from tests.system.console.test_topics import make, show

pytestmark = pytest.mark.slow


def test_groups_with_a_member_or_an_offset_are_consumers_of_a_topic(page: Page, shown_cluster: ShownCluster) -> None:
    for topic in ("consumed", "consumed-not"):
        make(shown_cluster, topic)
    fill(shown_cluster, "consumed", 10)
    show(page, shown_cluster, "consumed")
    page.get_by_role("link", name="Consumers").click()
    expect(page.get_by_role("heading", name="No consumers yet")).to_be_visible(timeout=30_000)
    commit(shown_cluster, HOSTILE, "consumed", 4)
    commit(shown_cluster, "of-another", "consumed-not", 0)
    consumer = Consumer({"bootstrap.servers": shown_cluster.bootstrap, "group.id": "attentive"})
    try:
        consumer.subscribe(["consumed"])
        eventually(lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()), "it has its partition")
        row = page.get_by_role("row", name=HOSTILE).get_by_role("cell")  # the page renews itself
        expect(row).to_have_text([HOSTILE, "empty", "classic", "0", "0", "1", "6"], timeout=60_000)
        row = page.get_by_role("row", name="attentive").get_by_role("cell")
        expect(row).to_have_text(["attentive", "stable", "classic", "1", "1", "0", "–"], timeout=60_000)
        expect(page.get_by_role("link", name="of-another")).to_have_count(0)
    finally:
        consumer.close()
    page.get_by_label("Search").fill("script")
    expect(page.get_by_role("link", name="attentive")).to_have_count(0)
    page.get_by_role("link", name=HOSTILE).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
