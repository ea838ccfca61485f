"""From a query on the SQL tab to a pipeline that runs: what it writes is read by a client of our own."""

import json
import re
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer
from playwright.sync_api import Page, expect

from tests.support.clusters.secured_listeners import PASSWORD, TOPIC
from tests.support.console.browser import leave_picture, serious_barriers
from tests.support.console.visitor import Visitor
from tests.support.eventually import eventually
from tests.system.console.conftest import GuardedConsole, ShownCluster
from tests.system.console.test_messages import publish

pytestmark = pytest.mark.slow
SPARK_WITHIN_S = 300.0
"""Spark starts in seconds, but not on a machine that others load."""


@pytest.fixture
def pipelines(shown_cluster: ShownCluster) -> Iterator[list[str]]:
    """Names of pipelines, which are deleted at the end."""
    names: list[str] = []
    yield names
    for name in names:
        httpx.delete(f"{shown_cluster.connect_url}/connectors/{name}", timeout=60)


def values(cluster: ShownCluster, topic: str, count: int) -> list[dict[str, object]]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "auto.offset.reset": "earliest",
         "topic.metadata.refresh.interval.ms": 500, "allow.auto.create.topics": False}
    )  # fmt: skip
    found: list[dict[str, object]] = []
    try:
        consumer.subscribe([topic])

        def has_all() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(json.loads(message.value() or b"null"))
            return len(found) >= count

        eventually(has_all, f"{topic} has {count} records", within_s=SPARK_WITHIN_S)
    finally:
        consumer.close()
    return found


def make_pipeline(page: Page, cluster: ShownCluster, topic: str, name: str, sql: str) -> None:
    """From the SQL tab to what would be created."""
    page.goto(f"{cluster.pages}/topics/{topic}/sql")
    page.get_by_label("SQL over the table").fill(sql)
    page.get_by_role("button", name="Make a pipeline…").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Target topic").fill(name)
    page.get_by_role("button", name="Show what is created").click()


def test_a_query_becomes_a_pipeline_and_what_spark_does_not_understand_is_told(
    page: Page, shown_cluster: ShownCluster, pipelines: list[str]
) -> None:
    rows = [(0, json.dumps({"carrier": ("UA", "B6")[number % 2], "delay": number}).encode()) for number in range(30)]
    publish(shown_cluster, "piped", 1, rows)
    make_pipeline(page, shown_cluster, "piped", "late", 'SELECT carrier, "delay" FROM records WHERE "delay" > 25')
    created = page.get_by_label("What is created")
    expect(created).to_contain_text("The worker finds nothing wrong")
    expect(created).to_contain_text("CREATE PIPELINE late WITH (topic = 'late', mode = 'append', checkpoint =")
    assert serious_barriers(page) == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        leave_picture(page, f"pipeline-{scheme}")
    pipelines.append("late")
    page.get_by_role("button", name="Create the pipeline").click()
    expect(page).to_have_url(re.compile("/connect/connectors/late"))
    config = httpx.get(f"{shown_cluster.connect_url}/connectors/late/config").json()
    assert (config["tables.records.topic"], config["outputs.late.topic"]) == ("piped", "late")

    only_duckdb = "SELECT carrier, list_aggregate([1], 'sum') AS n FROM records"
    make_pipeline(page, shown_cluster, "piped", "odd", only_duckdb)
    pipelines.append("odd")
    page.get_by_role("button", name="Create the pipeline").click()
    page.set_default_timeout(SPARK_WITHIN_S * 1000)
    expect(page.locator("#state .problem")).to_contain_text(
        "Syntax error at or near '['", timeout=SPARK_WITHIN_S * 1000
    )
    leave_picture(page, "pipeline-not-understood")

    found = values(shown_cluster, "late", 4)
    assert sorted(found, key=lambda each: str(each["delay"])) == [
        {"carrier": ("UA", "B6")[number % 2], "delay": number} for number in range(26, 30)
    ]
    look_at_finished_batch(page, shown_cluster, "late")


def look_at_finished_batch(page: Page, cluster: ShownCluster, name: str) -> None:
    """Looks for the last batch of a pipeline that has read all there is."""
    page.goto(f"{cluster.pages}/spark")
    cells = page.get_by_role("group", name=f"Outputs of {name}").get_by_role("row").nth(1).get_by_role("cell")
    expect(cells.nth(7)).to_have_text("0", timeout=SPARK_WITHIN_S * 1000)  # lag in records
    expect(cells.first).to_have_text(name)
    for number, wanted in ((2, r"\d+"), (3, r"\d+"), (6, r"[\d,]+ ms"), (11, r"\d{4}-.*")):
        expect(cells.nth(number)).to_have_text(re.compile(f"^{wanted}$"))
    assert serious_barriers(page) == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        leave_picture(page, f"spark-batch-{scheme}")


def test_what_cannot_be_a_pipeline_is_told_beside_the_form(page: Page, shown_cluster: ShownCluster) -> None:
    publish(shown_cluster, "unpiped", 1, [(0, b'{"a": 1}')])
    page.goto(f"{shown_cluster.pages}/topics/unpiped/pipeline?q=SELECT+1;+SELECT+2&name=p&target=unpiped&show=1")
    expect(page.get_by_role("alert")).to_contain_text("would read what it writes")
    page.get_by_label("Target topic").fill("elsewhere")
    page.get_by_role("button", name="Show what is created").click()
    expect(page.get_by_label("What is created")).to_contain_text("sql")
    expect(page.locator("#check .problem")).to_contain_text("sql")
    expect(page.get_by_label("What is created")).not_to_contain_text("CREATE PIPELINE")  # nobody shall paste it
    expect(page.get_by_role("button", name="Create the pipeline")).to_have_count(0)


def test_without_workers_the_page_says_why(guarded_console: GuardedConsole) -> None:
    with Visitor(guarded_console.url) as visitor:
        visitor.sign_in("guarded", "owner", PASSWORD)
        page = f"{guarded_console.pages}/topics/{TOPIC}/pipeline"
        eventually(lambda: "knows no Connect workers" in visitor.get(page).text, "the page says why")
        fields = {"q": "SELECT 1", "name": "p", "target": "p", "mode": "append", "checkpoint": "/c"}
        answer = visitor.post(page, f"{guarded_console.pages}/topics/{TOPIC}", **fields)
        assert (answer.status_code, "knows no Connect workers" in answer.text) == (403, True)
