"""Links and flows in the console, from the click to the effect, with a second cluster as their source."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from playwright.sync_api import Browser, Page, expect

from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.console.browser import leave_picture, new_page, serious_barriers
from tests.support.console.console_process import ConsoleProcess
from tests.support.eventually import eventually
from tests.support.mirror.mirror_worker import MirrorWorkerProcess
from tests.system.console.conftest import ShownCluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of one broker with two topics; its address."""
    with OttlaCluster(tmp_path_factory.mktemp("source") / "cluster") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for created in admin.create_topics([NewTopic("linked", 1, 1), NewTopic("copied", 1, 1)]).values():
            created.result()
        for topic in ("linked", "copied"):
            publish(cluster.bootstrap, topic, range(5))
        yield cluster.bootstrap


def publish(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0


def end_of(bootstrap: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})  # type: ignore[no-untyped-call]
    return int(asked[TopicPartition(topic, 0)].result(30).offset)


def ottla(*arguments: str) -> str:
    done = subprocess.run([ottla_command(), *arguments], check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


def takes_writes(cluster: ShownCluster, topic: str) -> bool:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 5000})
    is_taken: list[bool] = []
    producer.produce(topic, b"written here", on_delivery=lambda error, _: is_taken.append(error is None))
    producer.flush(10)
    return is_taken == [True]


def confirm(page: Page, label: str, typed: str | None = None) -> None:
    page.get_by_role("button", name=f"{label}…").click()
    dialog = page.get_by_role("dialog")
    if typed is not None:
        dialog.get_by_role("textbox").fill(typed)
    dialog.get_by_role("button", name=label).click()


def test_a_link_is_paused_and_promoted_once_its_name_is_typed(
    page: Page, shown_cluster: ShownCluster, source: str
) -> None:
    ottla("mirror", "link", "create", "west", "--source", source, "--topics", "linked", "--wait", "-b",
          shown_cluster.bootstrap)  # fmt: skip
    page.goto(f"{shown_cluster.pages}/mirrors")
    page.get_by_role("group", name="Links").get_by_role("link", name="west").click()
    row = page.get_by_role("group", name="Partitions").get_by_role("row").nth(1)
    expect(row.get_by_role("cell")).to_have_text(["linked", "0", "5", "5", "0", "0", "RUNNING"], timeout=20_000)
    assert serious_barriers(page) == []
    confirm(page, "Pause")
    expect(page.get_by_role("status")).to_have_text("Link west is paused.")
    (described,) = json.loads(ottla("mirror", "link", "list", "--json", "-b", shown_cluster.bootstrap))
    assert described["paused"]
    assert not takes_writes(shown_cluster, "linked")  # it follows
    confirm(page, "Promote", "west")
    expect(page.get_by_role("status")).to_contain_text("1 partition of west takes writes now; 0 offsets")
    eventually(lambda: takes_writes(shown_cluster, "linked"), "the topic takes writes")
    page.goto(f"{shown_cluster.pages}/mirrors/links/no-such")
    expect(page.locator("main")).to_contain_text("there is no link no-such")


def test_a_flow_shows_its_lag_is_paused_and_what_it_has_copied_is_compared(
    browser: Browser, shown_cluster: ShownCluster, source: str, tmp_path: Path
) -> None:
    flow = {
        "clusters": "west, here",
        "west.bootstrap.servers": source,
        "here.bootstrap.servers": shown_cluster.bootstrap,
        "west->here.enabled": "true",
        "west->here.topics": "copied",
        "group.id": "mirror-shown",
    }
    with MirrorWorkerProcess(tmp_path, flow) as worker:
        settings = {
            "clusters": "here,west",
            "cluster.here.bootstrap.servers": shown_cluster.bootstrap,
            "cluster.here.mirror.url": worker.url,
            "cluster.west.bootstrap.servers": source,
        }
        with ConsoleProcess(tmp_path, settings) as console, new_page(browser, console.url) as page:
            page.goto("/clusters/here/mirrors")
            page.get_by_role("group", name="Flows").get_by_role("link", name="west->here").click()
            cells = page.get_by_role("group", name="Partitions").get_by_role("row").nth(1).get_by_role("cell")
            for number, text in ((0, "copied"), (1, "0"), (2, "west.copied"), (3, "0"), (6, "COPYING")):
                expect(cells.nth(number)).to_have_text(text, timeout=30_000)
            assert serious_barriers(page) == []
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                leave_picture(page, f"flow-{scheme}")
            assert end_of(shown_cluster.bootstrap, "west.copied") == 5
            confirm(page, "Pause")
            expect(page.get_by_role("status")).to_have_text("west->here is paused.")
            eventually(lambda: worker.flow("west->here", "lag")["state"] == "PAUSED", "the flow is paused")
            publish(source, "copied", range(5, 8))
            confirm(page, "Resume")
            expect(page.get_by_role("status")).to_have_text("west->here goes on.")
            eventually(lambda: end_of(shown_cluster.bootstrap, "west.copied") == 8, "all is copied")
            page.goto("/clusters/here/verification")
            page.get_by_label("Topics at the source").fill("copied")
            page.get_by_label("Alias before").fill("west")
            page.get_by_role("button", name="Compare").click()
            verdict = "Everything is equal: 1 partition equal; 8 records compared."
            expect(page.locator("#verification .verdict")).to_have_text(verdict, timeout=30_000)


def test_a_cluster_is_compared_with_its_source(
    browser: Browser, shown_cluster: ShownCluster, source: str, tmp_path: Path
) -> None:
    for topic, value in (("equal", b"1"), ("other", b"1")):
        for bootstrap in (source, shown_cluster.bootstrap):
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
            producer = Producer({"bootstrap.servers": bootstrap})
            producer.produce(topic, value if (topic, bootstrap) != ("other", source) else b"2", timestamp=1)
            assert producer.flush(30) == 0
    settings = {
        "clusters": "east,west",
        "cluster.east.bootstrap.servers": shown_cluster.bootstrap,
        "cluster.west.bootstrap.servers": source,
    }
    with ConsoleProcess(tmp_path, settings) as console, new_page(browser, console.url) as page:
        page.goto("/clusters/east/mirrors")
        page.get_by_role("link", name="Compare with a source…").click()
        for topics, verdict in (
            ("equal", "Everything is equal: 1 partition equal"),
            ("equal other", "Not everything"),
        ):
            page.get_by_label("Topics at the source").fill(topics)
            page.get_by_role("button", name="Compare").click()
            expect(page.locator("#verification .verdict")).to_contain_text(verdict, timeout=30_000)
        row = page.get_by_role("group", name="Differences").get_by_role("row", name="other")
        expect(row).to_contain_text("source offset 0, target offset 0, other value")
        assert serious_barriers(page) == []
