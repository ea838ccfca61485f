"""A thousand groups: the list is whole, paged and searched, and asks only for those that it shows."""

from concurrent.futures import Future
from typing import Any

import httpx
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from playwright.sync_api import Page, expect

from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster
from tests.system.console.test_groups import fill
from tests.system.console.test_topics import make

pytestmark = pytest.mark.slow

GROUPS = 1_000


def is_committed_in_many(cluster: ShownCluster, topic: str) -> bool:
    """Commit an offset for each group; a coordinator may still be loading."""
    futures: dict[str, Future[Any]] = {}
    for number in range(GROUPS):
        wanted = [ConsumerGroupTopicPartitions(f"many-{number:04}", [TopicPartition(topic, 0, number % 10)])]
        futures |= cluster.admin.alter_consumer_group_offsets(wanted, request_timeout=60)
    return all(each.error is None for future in futures.values() for each in future.result().topic_partitions)


def test_a_thousand_groups_are_paged_and_searched(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "read-by-many")
    fill(shown_cluster, "read-by-many", 10)
    eventually(lambda: is_committed_in_many(shown_cluster, "read-by-many"), "each group has an offset")
    page.goto(f"{shown_cluster.pages}/groups?q=many-")
    expect(page.locator("#list .pager")).to_contain_text(f"1–50 of {GROUPS:,} groups")
    page.get_by_role("link", name="Next").click()
    row = page.get_by_role("row", name="many-0057").get_by_role("cell")
    expect(row).to_have_text(["many-0057", "empty", "classic", "0", "3"])
    page.get_by_label("Search").fill("MANY-0999")
    expect(page.locator("#list .pager")).to_have_text("1 group")
    address = f"{shown_cluster.url}{shown_cluster.pages}/groups?q=many-&page=20"
    answer = httpx.get(address)
    assert "many-0999" in answer.text
    address = f"{shown_cluster.url}{shown_cluster.pages}/topics/read-by-many/consumers"
    first = httpx.get(address)
    print(f"the first look at the consumers took {first.elapsed.total_seconds() * 1000:.0f} ms")
    page.goto(f"{shown_cluster.pages}/topics/read-by-many/consumers")
    expect(page.locator("#consumers .pager")).to_contain_text(f"1–50 of {GROUPS:,} groups", timeout=60_000)
    page.get_by_label("Search").fill("many-0123")
    row = page.get_by_role("row", name="many-0123").get_by_role("cell")
    expect(row).to_have_text(["many-0123", "empty", "classic", "0", "0", "1", "7"])
    print(f"the last page of {GROUPS} groups took {answer.elapsed.total_seconds() * 1000:.0f} ms")
