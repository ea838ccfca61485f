"""A thousand groups: the list is whole, paged and searched, and asks only for those that it shows."""

from concurrent.futures import Future
from typing import Any

import httpx
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from playwright.sync_api import Page, expect

from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster
from tests.system.console.test_groups import fill
from tests.system.console.test_topics import make

pytestmark = pytest.mark.slow

GROUPS = 1_000
COMMIT_TIMEOUT_S = 15
COMMITTED_WITHIN_S = 120
ANSWER_TIMEOUT_S = 60
SURVEY_WITHIN_MS = 120_000
"""The groups are asked in parts, with pauses that are as long as the asking; on a busy machine that takes minutes."""
PASSING = {
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}


def commit_in_many(cluster: ShownCluster, topic: str, missing: set[int]) -> bool:
    """Commit an offset for each group that is missing, and forget those that have one.

    A coordinator that is loading refuses an offset. One that a busy machine has kept from its lease gives its groups
    up, and librdkafka then fails all of a request, after its time-out.
    """
    futures: dict[int, Future[Any]] = {}
    for number in missing:
        wanted = [ConsumerGroupTopicPartitions(name := f"many-{number:04}", [TopicPartition(topic, 0, number % 10)])]
        futures[number] = cluster.admin.alter_consumer_group_offsets(wanted, request_timeout=COMMIT_TIMEOUT_S)[name]
    missing -= {number for number, future in futures.items() if is_committed(future)}
    return not missing


def is_committed(future: Future[Any]) -> bool:
    try:
        return all(each.error is None for each in future.result().topic_partitions)
    except KafkaException as exception:
        if exception.args[0].code() not in PASSING:
            raise
        return False


def test_a_thousand_groups_are_paged_and_searched(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "read-by-many")
    fill(shown_cluster, "read-by-many", 10)
    missing = set(range(GROUPS))
    eventually(
        lambda: commit_in_many(shown_cluster, "read-by-many", missing),
        "each group has an offset",
        within_s=COMMITTED_WITHIN_S,
    )
    page.goto(f"{shown_cluster.pages}/groups?q=many-")
    expect(page.locator("#list .pager")).to_contain_text(f"1–50 of {GROUPS:,} groups")
    page.get_by_role("link", name="Next").click()
    row = page.get_by_role("row", name="many-0057").get_by_role("cell")
    expect(row).to_have_text(["many-0057", "empty", "classic", "0", "3"])
    page.get_by_label("Search").fill("MANY-0999")
    expect(page.locator("#list .pager")).to_have_text("1 group")
    address = f"{shown_cluster.url}{shown_cluster.pages}/groups?q=many-&page=20"
    answer = httpx.get(address, timeout=ANSWER_TIMEOUT_S)
    assert "many-0999" in answer.text
    address = f"{shown_cluster.url}{shown_cluster.pages}/topics/read-by-many/consumers"
    first = httpx.get(address, timeout=ANSWER_TIMEOUT_S)
    print(f"the first look at the consumers took {first.elapsed.total_seconds() * 1000:.0f} ms")
    page.goto(f"{shown_cluster.pages}/topics/read-by-many/consumers")
    expect(page.locator("#consumers .pager")).to_contain_text(f"1–50 of {GROUPS:,} groups", timeout=SURVEY_WITHIN_MS)
    page.get_by_label("Search").fill("many-0123")
    row = page.get_by_role("row", name="many-0123").get_by_role("cell")
    expect(row).to_have_text(["many-0123", "empty", "classic", "0", "0", "1", "7"])
    print(f"the last page of {GROUPS} groups took {answer.elapsed.total_seconds() * 1000:.0f} ms")
