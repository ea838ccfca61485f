"""Groups in the console, from the click to the effect, which a client of our own sees."""

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from playwright.sync_api import Page, expect

from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster
from tests.system.console.test_topics import make

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script> & 'it\"s'"


def fill(cluster: ShownCluster, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(records):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(30) == 0


def commit(cluster: ShownCluster, group: str, topic: str, offset: int) -> None:
    wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])]

    def is_committed() -> bool:  # its coordinator may still be loading
        answered = cluster.admin.alter_consumer_group_offsets(wanted)[group].result().topic_partitions
        return all(each.error is None for each in answered)

    eventually(is_committed, f"{group} has an offset")


def committed(cluster: ShownCluster, group: str) -> dict[str, int]:
    found = cluster.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    return {each.topic: each.offset for each in found.topic_partitions}


def test_a_group_is_found_shows_its_lag_and_is_deleted_once_its_name_is_typed(
    page: Page, shown_cluster: ShownCluster
) -> None:
    make(shown_cluster, "read")
    fill(shown_cluster, "read", 10)
    for group in ("billing", "shipping", HOSTILE):
        commit(shown_cluster, group, "read", 4)
    page.goto(f"{shown_cluster.pages}/groups")
    expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    page.get_by_label("Search").fill("script")
    expect(page.get_by_role("link", name="billing")).to_have_count(0)
    expect(page.get_by_role("row", name=HOSTILE).get_by_role("cell").last).to_have_text("6")

    page.get_by_role("link", name=HOSTILE).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(page.get_by_role("group", name="Partitions").get_by_role("cell")).to_have_text(
        ["read", "0", "4", "10", "6", "–"]
    )
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill(HOSTILE)
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_have_text(f"Group {HOSTILE} was deleted.")
    assert committed(shown_cluster, HOSTILE) == {}
    assert committed(shown_cluster, "billing") == {"read": 4}


def test_a_group_with_members_shows_them_and_is_not_deleted(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "in-use")
    consumer = Consumer({"bootstrap.servers": shown_cluster.bootstrap, "group.id": "busy", "client.id": "reader-1"})
    try:
        consumer.subscribe(["in-use"])
        eventually(lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()), "it has its partition")
        page.goto(f"{shown_cluster.pages}/groups/busy")
        expect(page.get_by_role("group", name="Members").get_by_role("row", name="reader-1")).to_contain_text(
            "in-use:0"
        )
        page.get_by_role("button", name="Delete…").click()
        page.get_by_role("dialog").get_by_role("textbox").fill("busy")
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator("main")).to_contain_text("group busy has members; stop them first")
    finally:
        consumer.close()


def test_offsets_are_reset_as_the_plan_said(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "replayed")
    fill(shown_cluster, "replayed", 10)
    commit(shown_cluster, "replaying", "replayed", 7)
    page.goto(f"{shown_cluster.pages}/groups/replaying")
    page.get_by_role("link", name="Reset offsets…").click()
    page.get_by_label("Go on at").select_option("offset")
    page.get_by_label("Offset or time").fill("500")
    page.get_by_role("button", name="Show the plan").click()
    plan = page.get_by_role("group", name="New offsets").get_by_role("cell")
    expect(plan).to_have_text(["replayed", "0", "7", "10", "10", "0", "there is no offset 500; the nearest"])
    page.get_by_label("Offset or time").fill("2")
    page.get_by_role("button", name="Show the plan").click()
    expect(plan).to_have_text(["replayed", "0", "7", "2", "10", "8", ""])
    assert committed(shown_cluster, "replaying") == {"replayed": 7}  # so far it was only shown
    page.get_by_role("button", name="Reset…").click()
    page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    expect(page.get_by_role("status")).to_have_text("Group replaying goes on elsewhere in 1 partition.")
    assert committed(shown_cluster, "replaying") == {"replayed": 2}


def test_a_plan_that_is_outdated_is_refused(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "moved-on")
    fill(shown_cluster, "moved-on", 10)
    commit(shown_cluster, "moving", "moved-on", 3)
    page.goto(f"{shown_cluster.pages}/groups/moving/reset?to=latest")
    page.get_by_role("button", name="Reset…").click()
    commit(shown_cluster, "moving", "moved-on", 5)
    page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    expect(page.locator("main")).to_contain_text("the group has another offset in moved-on partition 0")
    assert committed(shown_cluster, "moving") == {"moved-on": 5}


def test_a_group_with_members_shows_the_plan_and_nothing_to_carry_it_out(
    page: Page, shown_cluster: ShownCluster
) -> None:
    make(shown_cluster, "being-read")
    commit(shown_cluster, "reading", "being-read", 0)
    consumer = Consumer({"bootstrap.servers": shown_cluster.bootstrap, "group.id": "reading"})
    try:
        consumer.subscribe(["being-read"])
        eventually(lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()), "it has its partition")
        page.goto(f"{shown_cluster.pages}/groups/reading/reset?to=earliest")
        expect(page.get_by_role("alert")).to_contain_text("The group has 1 member.")
        expect(page.get_by_role("button", name="Reset…")).to_have_count(0)
    finally:
        consumer.close()
