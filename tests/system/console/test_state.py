"""The state in etcd, as the console shows it."""

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from playwright.sync_api import Page, expect

from tests.support.eventually import eventually
from tests.system.console.conftest import ShownCluster

pytestmark = pytest.mark.slow


def test_the_state_is_shown_in_words(page: Page, shown_cluster: ShownCluster) -> None:
    wanted = [NewTopic("kept.in.etcd", num_partitions=2, replica_assignment=[[2, 1], [3, 1]])]
    shown_cluster.admin.create_topics(wanted)["kept.in.etcd"].result()
    setting = ConfigEntry("log.cleaner.backoff.ms", "15001", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[setting])
    shown_cluster.admin.incremental_alter_configs([resource])[resource].result()
    page.goto(f"{shown_cluster.pages}/state")
    keys = page.get_by_role("group", name="Keys")
    expect(keys.get_by_role("row", name="Cluster id")).to_contain_text(shown_cluster.admin.list_topics().cluster_id)
    page.get_by_label("Show").select_option("Partitions")
    page.get_by_label("Search").fill("kept.in.etcd")
    rows = keys.get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("kept.in.etcd partition 0")
    expect(rows.nth(1)).to_contain_text("replicas 2,1")
    address = f"{shown_cluster.url}{shown_cluster.pages}/state?part=configs"
    eventually(lambda: "log.cleaner.backoff.ms" in page.request.get(address).text(), "the setting is named")
    assert "15001" not in page.request.get(address).text()
