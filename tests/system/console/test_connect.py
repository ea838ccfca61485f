"""Connectors in the console, from the click to the effect, which the worker's REST API tells."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Page, expect

from tests.support.console.console_process import ConsoleProcess
from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster
from tests.system.console.test_topics import make

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>/../ & 'it\"s' {{7*7}}"
ORDERS = {
    "connector.class": "ottla_datagen.DatagenSource",
    "topic": "connect-orders",
    "datagen.quickstart": "orders",
    "datagen.rate": "20",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "-1",
}


def create(cluster: ShownCluster, name: str, config: dict[str, str]) -> None:
    """Creates a connector, and waits until its first task runs."""
    address = f"{cluster.connect_url}/connectors"

    def is_taken() -> bool:
        answer = httpx.post(address, json={"name": name, "config": config}, timeout=60)
        assert answer.status_code != 400, answer.text
        return answer.status_code == 201

    eventually(is_taken, f"{name} is created")
    eventually(lambda: bool(status(cluster, name)["tasks"]), f"{name} has a task")


def lines_sink(cluster: ShownCluster, topic: str) -> dict[str, str]:
    """Settings of a sink of JSON, which leaves what is none to its dead letters."""
    return {
        "connector.class": "ottla_file.FileSink",
        "topics": topic,
        "file.directory": str(cluster.files),
        "file.format": "json",
        "key.converter": "ByteArrayConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-letters",
        "errors.deadletterqueue.topic.replication.factor": "-1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


def ask(cluster: ShownCluster, name: str, *below: str) -> httpx.Response:
    return httpx.get("/".join([f"{cluster.connect_url}/connectors", quote(name, safe=""), *below]), timeout=30)


def status(cluster: ShownCluster, name: str) -> Any:
    return ask(cluster, name, "status").json()


def is_in(cluster: ShownCluster, name: str, state: str) -> bool:
    return bool(status(cluster, name)["connector"]["state"] == state)


def test_a_connector_is_paused_resumed_stopped_and_begins_anew(page: Page, shown_cluster: ShownCluster) -> None:
    create(shown_cluster, HOSTILE, {**ORDERS, "house.password": "s3cret"})
    eventually(lambda: ask(shown_cluster, HOSTILE, "offsets").json()["offsets"], "it has offsets", within_s=90)
    page.goto(f"{shown_cluster.pages}/connect?q=script")
    page.get_by_role("link", name=HOSTILE).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_have_text(f"Connector {HOSTILE} is being paused.")
    eventually(lambda: is_in(shown_cluster, HOSTILE, "PAUSED"), "it is paused")
    expect(page.locator("#state").get_by_text("PAUSED").first).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Resume").click()
    eventually(lambda: is_in(shown_cluster, HOSTILE, "RUNNING"), "it runs again")
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_role("row", name="datagen.quickstart")).to_contain_text("orders")
    expect(page.get_by_role("row", name="house.password")).to_contain_text("hidden")
    assert "s3cret" not in page.content()

    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    eventually(lambda: is_in(shown_cluster, HOSTILE, "STOPPED"), "it is stopped")
    page.get_by_role("link", name="Offsets").click()
    page.get_by_role("link", name="Reset offsets…").click()
    assert ask(shown_cluster, HOSTILE, "offsets").json()["offsets"]  # so far they were only shown
    page.get_by_role("button", name="Remove offsets…").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove offsets").click()
    expect(page.get_by_role("status")).to_contain_text("begins anew once it is resumed")
    assert ask(shown_cluster, HOSTILE, "offsets").json()["offsets"] == []

    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("textbox").fill(HOSTILE)
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_have_text(f"Connector {HOSTILE} was deleted.")
    assert ask(shown_cluster, HOSTILE).status_code == 404


def test_a_failed_task_shows_its_error_and_is_restarted(page: Page, shown_cluster: ShownCluster) -> None:
    source = shown_cluster.files / "rows.jsonl"
    source.write_text('{"good": 1}\n<script>alert(2)</script>\n')
    config = {"connector.class": "ottla_file.FileSource", "file.path": str(source), "file.format": "json"}
    create(shown_cluster, "breaks", {**ORDERS, **config, "topic": "connect-rows"} | {"errors.tolerance": "none"})
    eventually(lambda: status(shown_cluster, "breaks")["tasks"][0]["state"] == "FAILED", "it fails")
    page.goto(f"{shown_cluster.pages}/connect/connectors/breaks")
    expect(page.get_by_role("alert").first).to_contain_text("rows.jsonl")
    page.get_by_role("link", name="The whole error of task 0").click()
    expect(page.get_by_role("group", name="Error of task 0")).to_contain_text("rows.jsonl")
    source.write_text('{"good": 1}\n{"good": 2}\n')
    page.get_by_role("button", name="Restart task 0").click()
    expect(page.get_by_role("status")).to_have_text("Task 0 of breaks is being restarted.")
    eventually(lambda: status(shown_cluster, "breaks")["tasks"][0]["state"] == "RUNNING", "it runs")
    page.goto(f"{shown_cluster.pages}/connect/connectors/breaks/logs?of=0")
    expect(page.get_by_role("group", name="Lines")).to_contain_text("rows.jsonl")


def test_a_console_that_may_not_change_connectors_does_not(shown_cluster: ShownCluster, tmp_path: Path) -> None:
    create(shown_cluster, "guarded", ORDERS)
    settings = {
        "clusters": "local",
        "cluster.local.bootstrap.servers": shown_cluster.bootstrap,
        "cluster.local.connect.url": shown_cluster.connect_url,
        "cluster.local.connect.changes": "refused",
        "audit.log.path": str(tmp_path / "audit.log"),
    }
    with ConsoleProcess(tmp_path, settings) as console:
        address = f"{console.url}{shown_cluster.pages}/connect/connectors/guarded"
        shown = httpx.get(address, timeout=30).text
        assert "Pause" not in shown
        token = re.search(r'name="token" value="([^"]+)"', shown)
        assert token is not None
        own = {"origin": console.url, "sec-fetch-site": "same-origin"}
        form = {"token": token[1], "confirm": "guarded"}
        for path in ("do/pause", "do/stop", "tasks/0/restart", "delete", "offsets"):
            answer = httpx.post(f"{address}/{path}", data=form, headers=own, timeout=30)
            assert (answer.status_code, "connect.changes" in answer.text) == (403, True), path
    assert is_in(shown_cluster, "guarded", "RUNNING")
    assert (tmp_path / "audit.log").read_text().count('"refused"') == 5


def test_workers_and_plugins_are_listed(page: Page, shown_cluster: ShownCluster) -> None:
    page.goto(f"{shown_cluster.pages}/connect/workers")
    row = page.get_by_role("row", name=shown_cluster.connect_url.removeprefix("http://"))
    expect(row).to_contain_text("healthy")
    page.get_by_role("link", name="Plugins").click()
    page.get_by_label("Search").fill("datagen")
    expect(page.get_by_role("row", name="ottla_datagen.DatagenSource")).to_be_visible()
    expect(page.get_by_role("row", name="ottla_file.FileSource")).to_have_count(0)


def test_a_connector_is_created_by_the_form_and_changed_as_json(page: Page, shown_cluster: ShownCluster) -> None:
    name = "<b>formed</b>"
    page.goto(f"{shown_cluster.pages}/connect/plugins?q=datagen")
    page.get_by_role("link", name="New connector of ottla_datagen.DatagenSource").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Datagen rate").fill("fast")
    expect(page.locator("#check")).to_contain_text("datagen.rate", timeout=20_000)
    rate = page.get_by_label("Datagen rate")
    expect(page.locator(f"#{rate.get_attribute('id')}-problem")).to_contain_text("fast")
    rate.fill("5")
    page.get_by_label("Datagen quickstart").fill("orders")
    page.get_by_label("Topic required topic").fill("connect-formed")
    page.get_by_label("More settings").fill("house.password=s3cret")
    expect(page.locator("#check")).to_contain_text("nothing wrong", timeout=20_000)
    page.get_by_role("button", name="Create connector").click()
    expect(page.get_by_role("status")).to_have_text(f"Connector {name} was created.", timeout=30_000)
    config = ask(shown_cluster, name, "config").json()
    assert config == {
        "name": name,
        "connector.class": "ottla_datagen.DatagenSource",
        "datagen.rate": "5",
        "datagen.quickstart": "orders",
        "topic": "connect-formed",
        "house.password": "s3cret",
    }

    page.goto(f"{shown_cluster.pages}/connect/connectors/{quote(name, safe='')}/edit?as=json")
    assert "s3cret" not in page.content()
    text = page.get_by_label("Settings as JSON")
    text.fill(text.input_value().replace('"5"', '"7"'))
    page.get_by_role("button", name="Change connector").click()
    expect(page.get_by_role("status")).to_have_text(f"Connector {name} was changed.", timeout=30_000)
    assert ask(shown_cluster, name, "config").json() == {**config, "datagen.rate": "7"}


def test_a_connector_that_was_changed_meanwhile_is_not_changed(page: Page, shown_cluster: ShownCluster) -> None:
    create(shown_cluster, "shared", ORDERS)
    page.goto(f"{shown_cluster.pages}/connect/connectors/shared/edit")
    address = f"{shown_cluster.connect_url}/connectors/shared/config"
    assert httpx.put(address, json={**ORDERS, "datagen.rate": "3"}, timeout=60).status_code == 200
    page.get_by_label("Datagen rate").fill("9")
    page.get_by_role("button", name="Change connector").click()
    expect(page.locator("#check")).to_contain_text("somebody else has changed shared", timeout=30_000)
    assert ask(shown_cluster, "shared", "config").json()["datagen.rate"] == "3"


def test_a_dead_letter_says_why_and_is_sent_again(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "mail")
    config = {"bootstrap.servers": shown_cluster.bootstrap}
    producer = Producer(config)
    producer.produce("mail", b"<script>alert(3)</script>", b"k", headers=[("trace", b"4711")])
    assert producer.flush(30) == 0
    create(shown_cluster, "post", lines_sink(shown_cluster, "mail"))
    eventually(lambda: "mail-letters" in shown_cluster.admin.list_topics(timeout=10).topics, "a letter is left")
    letters = f"{shown_cluster.url}{shown_cluster.pages}/connect/connectors/post/dead-letters"
    # The console keeps for seconds which topics it has seen.
    eventually(lambda: ">0:0<" in httpx.get(letters, timeout=30).text, "the letter is listed")
    page.goto(f"{shown_cluster.pages}/connect/connectors/post")
    page.get_by_role("link", name="Dead letters").click()
    expect(page.get_by_role("row", name="0:0").first).to_contain_text("its value could not be converted")
    page.get_by_role("link", name="0:0").click()
    expect(page.get_by_role("group", name="Value")).to_have_text("<script>alert(3)</script>")
    page.get_by_role("button", name="Send again…").click()
    page.get_by_role("dialog").get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status")).to_have_text("It was sent to mail, partition 0, offset 1.")
    consumer = Consumer({**config, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("mail", 0, 1)])
        message = eventually(lambda: consumer.poll(0.5), "the record is there")
        assert (message.key(), message.value()) == (b"k", b"<script>alert(3)</script>")
        assert message.headers() == [("trace", b"4711")]
    finally:
        consumer.close()
