"""Messages in the console: what is shown is what a client of our own has published, whatever that is."""

import json
import re
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from playwright.sync_api import Browser, Page, expect

from tests.support.console.browser import new_page
from tests.support.console.console_process import ConsoleProcess
from tests.support.eventually import eventually
from tests.support.servers.schema_registry_server import SchemaRegistryServer
from tests.system.console.conftest import ShownCluster

pytestmark = pytest.mark.slow

AVRO = '{"type": "record", "name": "F", "fields": [{"name": "from", "type": "string"}]}'
HOSTILE = [
    b"<script>document.title='taken over'</script>",
    b'"><img src=x onerror="document.title=1">',
    b"{{ 7 * 7 }}",
    b"\x1b]0;owned\x07\x1b[2J",
    b"[" * 200_000,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b"x" * 900_000,
    bytes(range(256)) * 500,
    b"\xed\xa0\x80 half a surrogate",
]


def publish(cluster: ShownCluster, topic: str, partitions: int, values: list[tuple[int, bytes]]) -> None:
    created = cluster.admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])
    created[topic].result()
    eventually(lambda: get(cluster, f"/topics/{topic}").status_code == 200, "the console shows the topic")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number, (partition, value) in enumerate(values):
        producer.produce(
            topic,
            value,
            f"key-{number}",
            partition,
            timestamp=1_357_000_000_000 + number,
            headers=[("n", value[:50])],
        )
    assert producer.flush(60) == 0


def get(cluster: ShownCluster, path: str) -> httpx.Response:
    return httpx.get(f"{cluster.url}{cluster.pages}{path}", timeout=30)


def test_messages_are_browsed_newest_first_and_from_an_offset_or_a_time(
    page: Page, shown_cluster: ShownCluster
) -> None:
    values = [(number % 3, b'{"number": %d}' % number) for number in range(120)]
    publish(shown_cluster, "browsed", 3, values)
    page.goto(f"{shown_cluster.pages}/topics/browsed")
    page.get_by_role("link", name="Messages", exact=True).click()
    rows = page.locator(".message")
    expect(rows).to_have_count(50)
    expect(rows.nth(0)).to_contain_text('"number": 119')
    expect(rows.nth(1)).to_contain_text('"number": 118')
    page.get_by_role("link", name="More").click()
    expect(rows.nth(0)).to_contain_text('"number": 69')
    page.get_by_role("link", name="More").click()
    expect(rows).to_have_count(20)
    expect(rows.nth(19)).to_contain_text('"number": 0')
    expect(page.locator(".progress")).to_contain_text("looked to the beginning")

    page.get_by_label("Begin at").fill("38")
    page.get_by_label("Order").select_option("oldest")
    page.get_by_label("Partition", exact=True).fill("2")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("2:38")
    expect(page).to_have_url(re.compile(r"start=38"))
    page.reload()
    expect(rows).to_have_count(2)
    page.goto(f"{shown_cluster.pages}/topics/browsed/messages?start=@1357000000100&order=oldest")
    expect(rows).to_have_count(20)
    expect(rows.nth(0)).to_contain_text('"number": 100')
    rows.nth(0).get_by_role("link").click()
    expect(page.get_by_role("heading", name="Message 1:33")).to_be_visible()


def test_a_search_says_how_far_it_looked_and_what_it_found_is_downloaded(
    page: Page, shown_cluster: ShownCluster
) -> None:
    values = [(number % 2, json.dumps({"delay": number}).encode()) for number in range(20_000)]
    publish(shown_cluster, "searched", 2, values)
    page.goto(f"{shown_cluster.pages}/topics/searched/messages")
    page.get_by_role("searchbox").fill("$.delay < 3")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".message")).to_have_count(3)
    expect(page.locator(".progress")).to_contain_text("Found 3 in 20,000 messages")
    with page.expect_download() as taken:
        page.get_by_role("link", name="JSON lines").click()
    lines = [json.loads(line) for line in taken.value.path().read_text().splitlines()]
    assert [line["value"] for line in lines] == ['{"delay": 2}', '{"delay": 1}', '{"delay": 0}']
    table = get(shown_cluster, "/topics/searched/messages.download/csv?q=$.delay+>+19998")
    assert table.text.splitlines()[1].startswith("1,9999,1357000019999,key-19999,")
    page.get_by_role("searchbox").fill("$.delay <")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("needs a value")
    expect(page.get_by_role("searchbox")).to_have_value("$.delay <")


def test_hostile_messages_are_shown_as_what_they_are_and_do_nothing(page: Page, shown_cluster: ShownCluster) -> None:
    publish(shown_cluster, "hostile", 1, [(0, value) for value in HOSTILE])
    page.goto(f"{shown_cluster.pages}/topics/hostile/messages?order=oldest")
    rows = page.locator(".message")
    expect(rows).to_have_count(len(HOSTILE))
    expect(page).to_have_title(re.compile("^hostile"))
    expect(rows.nth(0).locator("pre").nth(1)).to_have_text(HOSTILE[0].decode())
    expect(rows.nth(2).locator("pre").nth(1)).to_have_text("{{ 7 * 7 }}")
    expect(rows.nth(3).locator("pre").nth(1)).to_have_text(re.compile(r"\\x1b\]0;owned\\x07\\x1b\[2J"))
    assert len(page.content()) < 100_000
    assert "\x1b" not in get(shown_cluster, "/topics/hostile/messages").text
    rows.nth(6).get_by_role("link", name="All of it").click()
    expect(page.locator("pre.whole").nth(1)).to_have_text("x" * 900_000)
    for offset, value in enumerate(HOSTILE):
        whole = get(shown_cluster, f"/topics/hostile/messages/0/{offset}")
        assert whole.status_code == 200
        assert len(whole.content) < 8_000_000
        taken = get(shown_cluster, f"/topics/hostile/messages/0/{offset}/value")
        assert taken.content == value
        assert taken.headers["content-type"] == "application/octet-stream"
        assert taken.headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("messages?at=nonsense", 400),
        ("messages?partition=9", 400),
        ("messages/0/99", 404),
        ("messages/9/0", 404),
        ("messages/0/" + "9" * 30, 404),
        ("messages/0/" + "9" * 5000, 404),
        ("messages/0/0/headers", 404),
        ("messages.download/exe", 404),
    ],
)
def test_what_is_not_there_is_told(shown_cluster: ShownCluster, path: str, status: int) -> None:
    if "told" not in shown_cluster.admin.list_topics(timeout=10).topics:
        publish(shown_cluster, "told", 1, [(0, b"one")])
    assert get(shown_cluster, f"/topics/told/{path}").status_code == status


def newest(cluster: ShownCluster, topic: str) -> Message:
    """The newest message of a topic of one partition, as a consumer of our own reads it."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "of-the-test"})
    try:
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
        consumer.assign([TopicPartition(topic, 0, end - 1)])
        found = consumer.poll(20)
        assert found is not None
        assert found.error() is None
        return found
    finally:
        consumer.close()


def test_a_message_is_published_and_copied_with_changes(page: Page, shown_cluster: ShownCluster) -> None:
    publish(shown_cluster, "written", 1, [])
    page.goto(f"{shown_cluster.pages}/topics/written/messages")
    expect(page.get_by_role("heading", name="No messages yet")).to_be_visible()
    page.get_by_role("link", name="Publish a message").click()
    page.get_by_label("Key is").select_option("int32")
    page.get_by_label("Key", exact=True).fill("seventeen")
    page.get_by_label("Value", exact=True).fill('{"text": "<b>Grüße</b>"}')
    page.get_by_label("Headers").fill("trace: 4711\nother: a: b")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("alert")).to_contain_text("Key: it is no int32")
    page.get_by_label("Key", exact=True).fill("17")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("status")).to_have_text("The message was published to partition 0 at offset 0.")
    found = newest(shown_cluster, "written")
    assert (found.key(), found.value()) == (b"\0\0\0\x11", '{"text": "<b>Grüße</b>"}'.encode())
    assert found.headers() == [("trace", b"4711"), ("other", b"a: b")]

    page.get_by_role("link", name="Copy with changes").click()
    expect(page.get_by_label("Value", exact=True)).to_have_value('{"text": "<b>Grüße</b>"}')
    page.get_by_label("Value is").select_option("none")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("status")).to_contain_text("at offset 1")
    copied = newest(shown_cluster, "written")
    assert (copied.key(), copied.value()) == (b"\0\0\0\x11", None)
    assert copied.headers() == found.headers()


def test_messages_of_transactions_are_shown_once_they_are_committed(page: Page, shown_cluster: ShownCluster) -> None:
    publish(shown_cluster, "transactional", 1, [(0, b"before")])
    producer = Producer({"bootstrap.servers": shown_cluster.bootstrap, "transactional.id": "of-the-test"})
    producer.init_transactions(30)
    for number, is_committed in enumerate([True, False]):
        producer.begin_transaction()
        for _ in range(60):
            producer.produce("transactional", f"within {number}", partition=0)
        assert producer.flush(30) == 0
        page.goto(f"{shown_cluster.pages}/topics/transactional/messages")
        expect(page.locator(".message")).to_have_count(50 if number else 1)
        expect(page.locator(".message").nth(0)).to_contain_text("within 0" if number else "before")
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    page.reload()
    expect(page.locator(".message")).to_have_count(50)
    expect(page.locator(".message").nth(0)).to_contain_text("within 0")
    page.get_by_role("link", name="More").click()
    expect(page.locator(".message")).to_have_count(11)


def test_a_read_only_console_publishes_nothing(browser: Browser, shown_cluster: ShownCluster, tmp_path: Path) -> None:
    publish(shown_cluster, "kept", 1, [(0, b"the only one")])
    settings = {
        "clusters": "local",
        "cluster.local.bootstrap.servers": shown_cluster.bootstrap,
        "read.only": "true",
        "audit.log.path": str(tmp_path / "audit.log"),
    }
    with ConsoleProcess(tmp_path, settings) as console, new_page(browser, console.url) as page:
        page.goto("/clusters/local/topics/kept/messages")
        expect(page.locator(".message")).to_have_count(1)
        expect(page.get_by_role("link", name="Publish a message")).to_have_count(0)
        token = page.locator("form.themes input[name=token]").get_attribute("value")
        form = {"token": str(token), "value": "another", "key_format": "none"}
        answer = page.request.post(
            f"{console.url}/clusters/local/topics/kept/publish", form=form, headers={"origin": console.url}
        )
        assert answer.status == 403
    assert newest(shown_cluster, "kept").offset() == 0
    assert json.loads((tmp_path / "audit.log").read_text().splitlines()[-1])["outcome"] == "refused"


def test_what_has_a_schema_is_shown_searched_and_published_by_it(
    browser: Browser, shown_cluster: ShownCluster, tmp_path: Path
) -> None:
    registry = SchemaRegistryServer()
    client = SchemaRegistryClient({"url": registry.url})
    number = client.register_schema("typed-value", Schema(AVRO, "AVRO"))
    publish(shown_cluster, "typed", 1, [(0, b"\0" + number.to_bytes(4, "big") + b"\x06JFK")])
    settings = {
        "clusters": "local",
        "cluster.local.bootstrap.servers": shown_cluster.bootstrap,
        "cluster.local.schema.registry.url": registry.url,
    }
    try:
        with ConsoleProcess(tmp_path, settings) as console, new_page(browser, console.url) as page:
            page.goto("/clusters/local/topics/typed/messages?q=$.from+=+JFK")
            expect(page.locator(".message")).to_contain_text('"from": "JFK"')
            expect(page.locator(".message .badge")).to_have_text(f"schema {number}")
            page.get_by_role("link", name="Publish a message").click()
            page.get_by_label("Value is").select_option("schema")
            page.get_by_label("Value", exact=True).fill('{"from": 7}')
            page.get_by_role("button", name="Publish").click()
            expect(page.get_by_role("alert")).to_contain_text("Value: it ")
            page.get_by_label("Value", exact=True).fill('{"from": "EWR"}')
            page.get_by_role("button", name="Publish").click()
            expect(page.get_by_role("status")).to_contain_text("at offset 1")
            expect(page.locator("main")).to_contain_text('"from": "EWR"')
    finally:
        registry.stop()
    assert newest(shown_cluster, "typed").value() == b"\0" + number.to_bytes(4, "big") + b"\x06EWR"


def test_records_of_internal_topics_are_told_in_words(page: Page, shown_cluster: ShownCluster) -> None:
    publish(shown_cluster, "committed", 1, [(0, b"one"), (0, b"two")])
    consumer = Consumer({"bootstrap.servers": shown_cluster.bootstrap, "group.id": "told-in-words"})
    try:
        consumer.commit(offsets=[TopicPartition("committed", 0, 2)], asynchronous=False)
    finally:
        consumer.close()
    page.goto(f"{shown_cluster.pages}/topics/__consumer_offsets/messages?q=told-in-words")
    said = "Group told-in-words goes on at offset 2 of committed:0"
    expect(page.locator(".message .words").filter(has_text=said)).to_have_count(1)
    page.locator(".message", has_text=said).get_by_role("link").first.click()
    expect(page.locator(".words")).to_contain_text(said)
