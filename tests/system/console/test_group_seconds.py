"""The lag of a group in seconds, in a console that is told where the coordinator's metrics are."""

import json
import subprocess
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.console.browser import new_page, serious_barriers
from tests.support.console.console_process import ConsoleProcess
from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster
from tests.system.console.test_groups import commit, fill
from tests.system.console.test_topics import make

pytestmark = pytest.mark.slow


def coordinator_metrics(cluster: ShownCluster) -> str:
    status = [ottla_command(), "status", "--dir", str(cluster.directory), "--json"]
    document = json.loads(subprocess.run(status, check=True, capture_output=True, timeout=60).stdout)
    (url,) = [each["metrics"] for each in document["processes"] if each["role"] == "group-coordinator"]
    return str(url)


def is_told(metrics: str) -> bool:
    """Whether the coordinator knows how long records have waited."""
    return httpx.get(metrics, timeout=10).text.find('ottla_coordinator_group_lag_seconds{group="late"') >= 0


def seconds_shown(page: Page) -> float:
    page.reload()
    cells = page.get_by_role("group", name="Waiting").get_by_role("cell")
    return float(cells.last.inner_text()) if cells.count() else 0.0


def test_a_group_shows_for_how_long_records_have_waited(
    browser: Browser, shown_cluster: ShownCluster, tmp_path: Path
) -> None:
    make(shown_cluster, "waiting")
    fill(shown_cluster, "waiting", 5)
    commit(shown_cluster, "late", "waiting", 1)
    metrics = coordinator_metrics(shown_cluster)
    # After a look that took long, as it may on a busy machine, the coordinator pauses for twenty times as long.
    eventually(lambda: is_told(metrics), "the coordinator tells the lag", within_s=240)
    settings = {
        "clusters": "local",
        "cluster.local.bootstrap.servers": shown_cluster.bootstrap,
        "cluster.local.metrics.urls": f"http://127.0.0.1:1/metrics,{metrics}",
    }
    with ConsoleProcess(tmp_path, settings) as console, new_page(browser, console.url) as page:
        page.goto("/clusters/local/groups/late")
        eventually(lambda: seconds_shown(page) > 0, "the seconds are shown")
        expect(page.get_by_role("group", name="Waiting").get_by_role("cell").first).to_have_text("waiting")
        expect(page.get_by_role("img", name="Lag in records: 4 now")).to_be_visible(timeout=20_000)
        expect(page.get_by_role("img", name="Lag in seconds")).to_be_visible(timeout=20_000)
        assert serious_barriers(page) == []
