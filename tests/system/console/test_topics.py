"""Topics in the console, from the click to the effect, which a client of our own sees."""

import re

import httpx
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec, ResourceType
from playwright.sync_api import Page, Request, Route, expect

from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster

pytestmark = pytest.mark.slow


def partitions_of(cluster: ShownCluster, topic: str) -> int | None:
    found = cluster.admin.list_topics(timeout=10).topics
    return len(found[topic].partitions) if topic in found else None


def retention_of(cluster: ShownCluster, topic: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return str(cluster.admin.describe_configs([resource])[resource].result()["retention.ms"].value)


def make(cluster: ShownCluster, *topics: str) -> None:
    wanted = [NewTopic(name, num_partitions=1, replication_factor=1) for name in topics]
    for created in cluster.admin.create_topics(wanted).values():
        created.result()
    eventually(lambda: all(partitions_of(cluster, each) for each in topics), "the topics are there")


def show(page: Page, cluster: ShownCluster, topic: str) -> None:
    """Opens the page of a topic that is new: the console keeps for two seconds which topics there are."""

    def is_there() -> bool:
        response = page.goto(f"{cluster.pages}/topics/{topic}")
        return response is not None and response.ok

    eventually(is_there, f"{topic} has a page")


def publish(cluster: ShownCluster, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(records):
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0


def open_topic(page: Page, cluster: ShownCluster, topic: str) -> None:
    """Open a topic's page once the console, which keeps what it has seen for seconds, knows of it."""
    address = f"{cluster.url}{cluster.pages}/topics/{topic}"
    eventually(lambda: httpx.get(address).status_code == 200, "the console knows of the topic")
    page.goto(address)


def test_a_topic_is_created_grown_set_and_deleted(page: Page, shown_cluster: ShownCluster) -> None:
    page.goto(f"{shown_cluster.pages}/topics")
    page.get_by_role("link", name="New topic").click()
    page.get_by_label("Name").fill("flights")
    page.get_by_label("Partitions").fill("4")
    page.get_by_label("Keep records for (hours)").fill("48")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("status")).to_have_text("Topic flights was created.")
    eventually(lambda: partitions_of(shown_cluster, "flights") == 4, "the topic is there")
    assert retention_of(shown_cluster, "flights") == "172800000"

    page.get_by_role("button", name="Add partitions…").click()
    page.get_by_role("dialog").get_by_label("Partitions").fill("6")
    page.get_by_role("dialog").get_by_role("button", name="Add partitions").click()
    eventually(lambda: partitions_of(shown_cluster, "flights") == 6, "it has more partitions")

    page.get_by_role("link", name="Settings").click()
    page.get_by_text("retention.ms", exact=True).click()
    page.locator("details[open]").get_by_label("Value").fill("3600000")
    page.locator("details[open]").get_by_role("button", name="Set").click()
    expect(page.get_by_role("status")).to_have_text("retention.ms was set.")
    assert retention_of(shown_cluster, "flights") == "3600000"

    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("flight")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_be_visible()
    assert partitions_of(shown_cluster, "flights") == 6
    dialog.get_by_role("textbox").fill("flights")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_have_text("Topic flights was deleted.")
    eventually(lambda: partitions_of(shown_cluster, "flights") is None, "the topic is gone")


def test_a_topic_is_emptied_and_its_offsets_go_on(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "emptied")
    publish(shown_cluster, "emptied", 7)
    open_topic(page, shown_cluster, "emptied")
    page.get_by_role("button", name="Empty…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("emptied")
    dialog.get_by_role("button", name="Empty").click()
    expect(page.get_by_role("status")).to_have_text("The records of emptied were deleted.")
    place = TopicPartition("emptied", 0)
    (first,) = shown_cluster.admin.list_offsets({place: OffsetSpec.earliest()}).values()
    (end,) = shown_cluster.admin.list_offsets({place: OffsetSpec.latest()}).values()
    assert (first.result(30).offset, end.result(30).offset) == (7, 7)


def test_a_compacted_topic_is_not_emptied_and_it_is_said_why(page: Page, shown_cluster: ShownCluster) -> None:
    topic = NewTopic("kept-by-key", num_partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    for each in shown_cluster.admin.create_topics([topic]).values():
        each.result(30)
    eventually(lambda: partitions_of(shown_cluster, "kept-by-key") == 1, "the topic is there")
    open_topic(page, shown_cluster, "kept-by-key")
    page.get_by_role("button", name="Empty…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("kept-by-key")
    dialog.get_by_role("button", name="Empty").click()
    expect(page.get_by_role("alert")).to_contain_text("kept-by-key")


def test_what_a_cluster_refuses_stands_beside_the_form(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "taken")
    page.goto(f"{shown_cluster.pages}/new-topic")
    page.get_by_label("Name").fill("taken")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("alert")).to_contain_text("already exists")
    expect(page.get_by_label("Name")).to_have_value("taken")


def test_a_search_is_in_the_address_and_can_be_shared(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "orders.eu", "orders.us", "invoices")
    page.goto(f"{shown_cluster.pages}/topics")
    page.get_by_label("Search").fill("orders")
    expect(page.get_by_role("link", name="invoices")).to_have_count(0)
    expect(page.get_by_role("link", name="orders.eu")).to_be_visible()
    expect(page).to_have_url(re.compile(r"q=orders"))
    page.reload()
    expect(page.get_by_role("link", name="orders.us")).to_be_visible()
    expect(page.get_by_role("link", name="invoices")).to_have_count(0)


def test_a_list_that_renews_itself_takes_nothing_from_a_search(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "renewed", "not-wanted")
    held: list[Route] = []
    ended: list[Request] = []

    def hold(route: Route) -> None:  # a method of a list is no handler that Playwright takes
        held.append(route)

    def note_end(request: Request) -> None:
        ended.append(request)

    page.on("requestfinished", note_end)
    page.on("requestfailed", note_end)

    def is_held(count: int) -> bool:
        page.evaluate("0")  # lets the page's events arrive
        return len(held) == count

    def has_ended(renewal: Request) -> bool:
        page.evaluate("0")
        return renewal in ended

    page.goto(f"{shown_cluster.pages}/topics")
    page.route(re.compile(r"/topics(\?.*)?$"), hold)
    eventually(lambda: is_held(1), "the list renews itself")
    page.get_by_label("Search").fill("renewed")
    eventually(lambda: is_held(2), "a search is under way")
    renewal, search = held
    if renewal.request not in ended:
        renewal.continue_()
    eventually(lambda: has_ended(renewal.request), "the renewal has ended, or has been given up")
    search.continue_()
    expect(page.get_by_role("link", name="not-wanted")).to_have_count(0)
    expect(page.get_by_role("link", name="renewed")).to_be_visible()
