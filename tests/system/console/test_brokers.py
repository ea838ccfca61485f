"""Brokers in the console; preferred elections from the click to the effect, which a client of our own sees."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from playwright.sync_api import Page, expect

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_admin import ClusterAdmin
from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster

pytestmark = pytest.mark.slow


def leader_of(cluster: ShownCluster, topic: str) -> int:
    return int(cluster.admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader)


def in_sync(cluster: ShownCluster, topic: str) -> int:
    partition = cluster.admin.list_topics(topic, timeout=10).topics[topic].partitions.get(0)
    return len(partition.isrs) if partition else 0  # a broker may not have heard of the topic yet


def make_led_by_another(cluster: ShownCluster, topic: str) -> None:
    """Make a topic that broker 1 leads though broker 2 is preferred."""
    wanted = [NewTopic(topic, num_partitions=1, replica_assignment=[[1, 2]])]
    cluster.admin.create_topics(wanted)[topic].result()
    eventually(lambda: in_sync(cluster, topic) == 2, "both replicas are in sync")
    name = TopicPartition(topic, 0)
    with ClusterAdmin(cluster.bootstrap, {}) as admin:
        assert admin.reassign({name: (2, 1)}) == {name: None}
        eventually(lambda: admin.view().partitions[name].replicas == (2, 1) and not admin.moves(), "the order is new")
    assert leader_of(cluster, topic) == 1


def wait_until_planned(cluster: ShownCluster, page: Page, topic: str) -> None:
    """The console may ask a broker that learns of a change a little later."""
    address = f"{cluster.url}{cluster.pages}/elections"
    eventually(lambda: f">{topic}<" in page.request.get(address).text(), f"the plan has {topic}")


def test_a_broker_shows_its_directories_and_partitions(page: Page, shown_cluster: ShownCluster) -> None:
    wanted = [NewTopic("placed.here", num_partitions=1, replica_assignment=[[2]])]
    shown_cluster.admin.create_topics(wanted)["placed.here"].result()
    address = f"{shown_cluster.url}{shown_cluster.pages}/brokers/2?q=placed"
    # The console keeps for seconds which topics it has seen.
    eventually(lambda: ">placed.here<" in page.request.get(address).text(), "the console knows of the topic")
    page.goto(f"{shown_cluster.pages}/brokers")
    expect(page.get_by_role("row")).to_have_count(4)  # with the head
    page.get_by_role("link", name="Broker 2").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Broker 2")
    expect(page.get_by_role("group", name="Log directories").get_by_role("row").nth(1)).to_contain_text("in use")
    page.get_by_label("Search").fill("PLACED")
    held = page.get_by_role("group", name="Replicas").get_by_role("row")
    expect(held).to_have_count(2)
    expect(held.nth(1)).to_contain_text("placed.here")
    expect(held.nth(1)).to_contain_text("leads")
    page.goto(f"{shown_cluster.pages}/brokers/1?q=placed")
    expect(page.get_by_role("heading", name="No partition here is like that")).to_be_visible()
    page.goto(f"{shown_cluster.pages}/brokers/77")
    expect(page.locator("main")).to_contain_text("there is no broker 77")


def test_preferred_leaders_are_elected_as_the_plan_said(page: Page, shown_cluster: ShownCluster) -> None:
    make_led_by_another(shown_cluster, "led-by-another")
    wait_until_planned(shown_cluster, page, "led-by-another")
    page.goto(f"{shown_cluster.pages}/brokers")
    page.get_by_role("link", name="Preferred elections…").click()
    row = page.get_by_role("row", name="led-by-another")
    expect(row.get_by_role("cell")).to_have_text(["led-by-another", "0", "1", "2", "has broker 2 lead"])
    assert leader_of(shown_cluster, "led-by-another") == 1  # so far it was only shown
    page.get_by_role("button", name="Elect…").click()
    page.get_by_role("dialog").get_by_role("button", name="Elect").click()
    expect(page.get_by_role("status")).to_contain_text("led by the preferred replica again")
    eventually(lambda: leader_of(shown_cluster, "led-by-another") == 2, "the preferred replica leads")


def test_elections_that_were_not_shown_are_refused(page: Page, shown_cluster: ShownCluster) -> None:
    make_led_by_another(shown_cluster, "shown")
    wait_until_planned(shown_cluster, page, "shown")
    page.goto(f"{shown_cluster.pages}/elections")
    page.get_by_role("button", name="Elect…").click()
    make_led_by_another(shown_cluster, "not-shown")
    wait_until_planned(shown_cluster, page, "not-shown")
    page.get_by_role("dialog").get_by_role("button", name="Elect").click()
    expect(page.locator("main")).to_contain_text("the leaders are others by now")
    assert (leader_of(shown_cluster, "shown"), leader_of(shown_cluster, "not-shown")) == (1, 1)


def replicas_of(cluster: ShownCluster, topic: str) -> set[tuple[int, ...]]:
    partitions = cluster.admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
    return {tuple(each.replicas) for each in partitions}


def begin_to_empty(page: Page, cluster: ShownCluster, broker: int, throttle: str = "") -> None:
    page.goto(f"{cluster.pages}/brokers/{broker}")
    page.get_by_role("link", name="Decommission…").click()
    page.get_by_role("button", name="Move…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("megabytes per second").fill(throttle)
    dialog.get_by_label(f"Type {broker} to confirm").fill(str(broker))
    dialog.get_by_role("button", name="Move").click()


def test_brokers_are_emptied_and_evened_out_as_the_plan_said(page: Page, shown_cluster: ShownCluster) -> None:
    wanted = [NewTopic("moved", num_partitions=6, replica_assignment=[[2]] * 6)]
    shown_cluster.admin.create_topics(wanted)["moved"].result()
    with ClusterAdmin(shown_cluster.bootstrap, {}) as admin:
        eventually(lambda: not admin.moves(), "nothing is being moved")
        begin_to_empty(page, shown_cluster, 2)
        expect(page.get_by_role("heading", level=1)).to_have_text("Moves under way")
        expect(page.locator("#movement")).to_contain_text("Done:", timeout=60_000)
        assert not any(2 in each.replicas for each in admin.view().partitions.values())
        page.goto(f"{shown_cluster.pages}/brokers/2/decommission")
        expect(page.locator("main")).to_contain_text("Broker 2 has no replicas. Stop it")
        page.goto(f"{shown_cluster.pages}/brokers")
        page.get_by_role("link", name="Rebalance…").click()
        plan = page.get_by_role("group", name="Brokers before and after").get_by_role("row")
        expect(plan).to_have_count(4)
        assert not any(2 in each.replicas for each in admin.view().partitions.values())  # so far it was only shown
        page.get_by_role("button", name="Move…").click()
        page.get_by_role("dialog").get_by_role("button", name="Move").click()
        expect(page.locator("#movement")).to_contain_text("Evening out replicas")
        expect(page.locator("#movement")).to_contain_text("Done:", timeout=60_000)
        assert any(2 in each.replicas for each in admin.view().partitions.values())


def test_a_movement_is_seen_and_cancelled(page: Page, shown_cluster: ShownCluster) -> None:
    wanted = [NewTopic("slow", num_partitions=1, replica_assignment=[[3]])]
    shown_cluster.admin.create_topics(wanted)["slow"].result()
    producer = Producer({"bootstrap.servers": shown_cluster.bootstrap, "linger.ms": 50})
    for _ in range(800):
        producer.produce("slow", bytes(100_000))
        producer.poll(0)
    assert producer.flush(60) == 0
    begin_to_empty(page, shown_cluster, 3, throttle="1")
    row = page.get_by_role("group", name="Moves under way").get_by_role("row", name="slow")
    expect(row).to_contain_text("MB")
    expect(page.get_by_role("progressbar")).to_be_visible()
    begin_again = page.request.get(f"{shown_cluster.url}{shown_cluster.pages}/rebalance")
    assert (begin_again.status, "being moved already" in begin_again.text()) == (409, True)
    page.get_by_role("button", name="Cancel moves…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel moves").click()
    expect(page.locator("#movement")).to_contain_text("Stopped:")
    assert replicas_of(shown_cluster, "slow") == {(3,)}
    with ClusterAdmin(shown_cluster.bootstrap, {}) as admin:
        assert admin.moves() == {}
        (settings,) = admin.topic_settings(["slow"], ["leader.replication.throttled.replicas"]).values()
        assert set(settings.values()) <= {""}
    shown_cluster.admin.delete_topics(["slow"])["slow"].result()


def test_a_broker_in_service_is_not_forgotten(page: Page, shown_cluster: ShownCluster) -> None:
    page.goto(f"{shown_cluster.pages}/brokers/77/decommission")
    page.get_by_role("button", name="Forget…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type 77 to confirm").fill("77")
    form = dialog.locator("form")
    form.evaluate("form => form.action = form.action.replace('/77/', '/1/')")
    dialog.get_by_role("button", name="Forget").click()
    expect(page.locator("main")).to_contain_text("nothing was changed: to confirm, type 1")
    assert 1 in shown_cluster.admin.list_topics(timeout=10).brokers
