"""The growth of a topic, as the console's looks at the cluster have seen it."""

import pytest
from playwright.sync_api import Page, expect

from tests.system.console.conftest import ShownCluster
from tests.system.console.test_topics import make, publish, show

pytestmark = pytest.mark.slow


def test_the_growth_of_a_topic_is_told_as_it_goes_on(page: Page, shown_cluster: ShownCluster) -> None:
    make(shown_cluster, "growing")
    show(page, shown_cluster, "growing")
    page.get_by_role("link", name="Growth").click()
    expect(page.get_by_role("img", name="Size of one copy")).to_be_visible(timeout=120_000)
    tiles = page.locator("#growth dl > div")
    expect(tiles.first).to_contain_text("Records in")
    expect(tiles.first.locator("dd")).to_have_text("0")
    publish(shown_cluster, "growing", 500)
    expect(tiles.first.locator("dd")).to_have_text("500", timeout=120_000)
    expect(tiles.nth(1).locator("dd")).to_contain_text("+")
    expect(page.get_by_role("img", name="Growth of one copy")).to_be_visible()
