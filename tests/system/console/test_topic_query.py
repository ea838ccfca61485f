"""SQL over a topic in the console: what a client of our own has published is asked, shown and downloaded."""

import json
import re
from pathlib import Path

import duckdb
import pytest
from playwright.sync_api import Page, expect

from tests.system.console.conftest import ShownCluster
from tests.system.console.test_messages import get, publish

pytestmark = pytest.mark.slow


def test_a_query_is_answered_as_table_chart_and_file(page: Page, shown_cluster: ShownCluster, tmp_path: Path) -> None:
    values = [
        (number % 2, json.dumps({"carrier": ("UA", "B6", "AA")[number % 3], "delay": number}).encode())
        for number in range(3_000)
    ]
    publish(shown_cluster, "asked", 2, values)
    page.goto(f"{shown_cluster.pages}/topics/asked")
    page.get_by_role("link", name="SQL").click()
    sql = "SELECT carrier, max(delay) AS latest, count(*) AS n FROM records GROUP BY ALL ORDER BY latest DESC"
    page.get_by_label("SQL over the table").fill(sql)
    page.get_by_role("button", name="Run").click()
    cells = page.locator("#answer tbody td")
    expect(cells).to_have_text(["AA", "2999", "1000", "B6", "2998", "1000", "UA", "2997", "1000"])
    expect(page.locator(".progress")).to_contain_text("3 rows, over 3,000 records")
    expect(page.locator(".bars .label")).to_have_text(["AA", "B6", "UA"])
    page.reload()
    expect(cells).to_have_count(9)
    with page.expect_download() as taken:
        page.get_by_role("link", name="JSON lines").click()
    lines = [json.loads(line) for line in taken.value.path().read_text().splitlines()]
    assert lines[0] == {"carrier": "AA", "latest": 2999, "n": 1000}
    with page.expect_download() as taken:
        page.get_by_role("link", name="CSV").click()
    assert taken.value.path().read_text().splitlines()[:2] == ["carrier,latest,n", "AA,2999,1000"]
    with page.expect_download() as taken:
        page.get_by_role("link", name="Parquet").click()
    kept = tmp_path / "answer.parquet"
    taken.value.save_as(kept)
    assert duckdb.execute(f"FROM '{kept}'").fetchall()[0] == ("AA", 2999, 1000)
    kept.write_bytes(get(shown_cluster, "/topics/asked/messages.download/parquet?q=$.delay+<+9").content)
    assert duckdb.execute(f"SELECT sum(delay)::INTEGER, count(key) FROM '{kept}'").fetchall() == [(36, 9)]


@pytest.mark.parametrize(
    ("range_", "first", "count"),
    [
        ("records=10", 1_357_000_000_110, 10),
        ("start=20&records=5&partition=1", 1_357_000_000_041, 5),
        ("start=-3", 1_357_000_000_114, 6),
        ("start=@1357000000100", 1_357_000_000_100, 20),
    ],
)
def test_a_query_is_over_the_range_that_is_asked_for(
    shown_cluster: ShownCluster, range_: str, first: int, count: int
) -> None:
    if "ranged" not in shown_cluster.admin.list_topics(timeout=10).topics:
        publish(shown_cluster, "ranged", 2, [(number % 2, b"%d" % number) for number in range(120)])
    sql = "SELECT epoch_ms(min(timestamp)) AS first, count(*) AS n FROM records"
    answer = get(shown_cluster, f"/topics/ranged/sql.download/jsonl?q={sql}&{range_}")
    assert answer.json() == {"first": first, "n": count}
    assert answer.headers["x-ottla-records"] == str(count)


def test_an_error_of_sql_stands_beside_the_query(page: Page, shown_cluster: ShownCluster) -> None:
    publish(shown_cluster, "mistaken", 1, [(0, b'{"delay": 1}')])
    page.goto(f"{shown_cluster.pages}/topics/mistaken/sql")
    page.get_by_label("SQL over the table").fill("SELECT dely FROM records")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_have_text(re.compile(r'column "dely" not found.*delay', re.DOTALL))
    expect(page.get_by_label("SQL over the table")).to_have_value("SELECT dely FROM records")
    for sql in ("SELECT * FROM read_text('/etc/passwd')", "COPY records TO '/tmp/stolen'", "SELECT 1; SELECT 2"):
        answer = get(shown_cluster, f"/topics/mistaken/sql?q={sql}")
        assert answer.status_code == 400
        assert "root:" not in answer.text
    assert get(shown_cluster, "/topics/mistaken/sql.download/jsonl?q=").status_code == 400
    assert get(shown_cluster, "/topics/mistaken/sql.download/exe?q=SELECT 1").status_code == 404


def test_an_answer_shows_what_messages_hold_as_text(page: Page, shown_cluster: ShownCluster) -> None:
    hostile = "<script>document.title='taken over'</script>"
    publish(shown_cluster, "asked-hostile", 1, [(0, json.dumps({hostile: hostile}).encode())])
    page.goto(f"{shown_cluster.pages}/topics/asked-hostile/sql?q=SELECT * FROM records")
    expect(page.locator("#answer tbody td").last).to_have_text(hostile)
    expect(page.locator("#answer thead th").last).to_contain_text(hostile)
    expect(page).to_have_title(re.compile("^asked-hostile"))
