"""Messages as they arrive: a browser sees what a client of our own publishes, and streams end with their browsers."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.support.console.console_process import ConsoleProcess
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.system.console.conftest import ShownCluster
from tests.system.console.test_messages import publish

pytestmark = pytest.mark.slow


def arrive(cluster: ShownCluster, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def test_messages_appear_as_they_arrive_and_wait_while_it_is_paused(page: Page, shown_cluster: ShownCluster) -> None:
    publish(shown_cluster, "arriving", 2, [(0, b"before")])
    page.goto(f"{shown_cluster.pages}/topics/arriving/messages")
    page.get_by_role("link", name="Live").click()
    expect(page.locator("#rows")).to_contain_text("Nothing has arrived yet")
    arrive(shown_cluster, "arriving", "first", "<b>second</b>\r\rdata: x")
    rows = page.locator(".message")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("<b>second</b>")
    expect(rows.nth(1)).to_contain_text("first")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("paused")).to_be_visible()
    arrive(shown_cluster, "arriving", "third")
    so_far = f"{shown_cluster.url}{shown_cluster.pages}/topics/arriving/messages"
    eventually(lambda: "third" in httpx.get(so_far).text, "the console can read it")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Go on").click()
    expect(rows).to_have_count(1)
    expect(rows.nth(0)).to_contain_text("third")


def test_arriving_messages_are_filtered_and_only_the_newest_stay(page: Page, shown_cluster: ShownCluster) -> None:
    publish(shown_cluster, "filtered", 1, [])
    page.goto(f"{shown_cluster.pages}/topics/filtered/tail?q=$.delay+>+100")
    expect(page.locator("#rows")).to_contain_text("Nothing has arrived yet")
    arrive(shown_cluster, "filtered", *(f'{{"delay": {number}}}' for number in range(200)))
    expect(page.locator(".progress")).to_contain_text("99 found in 200 messages that have arrived; the newest 50")
    expect(page.locator(".message")).to_have_count(50)
    expect(page.locator(".message").nth(0)).to_contain_text("199")
    page.goto(f"{shown_cluster.pages}/topics/filtered/tail?q=$.delay+>")
    expect(page.get_by_role("alert")).to_contain_text("needs a value")


def test_a_stream_ends_when_its_browser_goes_and_goes_on_where_it_was(
    shown_cluster: ShownCluster, tmp_path: Path
) -> None:
    publish(shown_cluster, "gone", 1, [(0, b"zero"), (0, b"one"), (0, b"two")])
    (port,) = free_ports(1)
    settings = {
        "clusters": "local",
        "cluster.local.bootstrap.servers": shown_cluster.bootstrap,
        "metrics.listener": f"{LOOPBACK}:{port}",
    }

    def streams() -> int:
        lines = httpx.get(f"http://{LOOPBACK}:{port}/metrics").text.splitlines()
        return next(int(float(line.split()[-1])) for line in lines if line.startswith("ottla_console_tails"))

    with ConsoleProcess(tmp_path, settings) as console:
        address = f"{console.url}/clusters/local/topics/gone/tail.events"
        with httpx.stream("GET", address, headers={"last-event-id": "0:1"}, timeout=20) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            texts = answer.iter_text()  # it ends the request when it goes
            seen = read_until(texts, "id: 0:3")
            assert "two" in seen
            assert "zero" not in seen
            assert streams() == 1
        eventually(lambda: streams() == 0, "the stream has ended")
        assert httpx.get(f"{address}?at=nonsense").status_code == 400
        with httpx.stream("GET", address, timeout=20) as answer:
            texts = answer.iter_text()
            read_until(texts, "id: 0:3")
            console.process.stop()
            assert "event: end" in "".join(texts)


def read_until(texts: Iterator[str], wanted: str) -> str:
    """What a stream has sent when it has sent something."""
    seen = ""
    while wanted not in seen:
        seen += next(texts)
    return seen
