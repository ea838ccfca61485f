"""Kafka's own command sets, shows and removes quotas of users, client ids and addresses."""

from collections.abc import Iterator

import pytest

from tests.compat.java.kafka_tools import CONFIGS, run_tool
from tests.support.clusters.ottla_cluster import OttlaCluster

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    with OttlaCluster(tmp_path_factory.mktemp("quotas"), brokers=1) as made:
        yield made


@pytest.mark.parametrize(
    ("entity", "quota", "shown"),
    [
        (("--entity-type", "users", "--entity-name", "ada"), "producer_byte_rate=1024", "user-principal 'ada'"),
        (("--entity-type", "users", "--entity-default"), "request_percentage=50", "default user-principal"),
        (("--entity-type", "clients", "--entity-name", "app"), "consumer_byte_rate=2048", "client-id 'app'"),
        (
            ("--entity-type", "users", "--entity-name", "ada", "--entity-type", "clients", "--entity-default"),
            "controller_mutation_rate=5",
            "user-principal 'ada'",
        ),
        (("--entity-type", "ips", "--entity-name", "10.1.1.1"), "connection_creation_rate=3", "ip '10.1.1.1'"),
    ],
)
def test_a_quota_is_set_shown_and_removed(
    cluster: OttlaCluster, entity: tuple[str, ...], quota: str, shown: str
) -> None:
    base = ("--bootstrap-server", cluster.bootstrap, *entity)
    assert "Completed updating" in run_tool(CONFIGS, *base, "--alter", "--add-config", quota)
    described = run_tool(CONFIGS, *base, "--describe")
    name = quota.partition("=")[0]
    assert shown in described
    assert name in described
    run_tool(CONFIGS, *base, "--alter", "--delete-config", name)
    assert name not in run_tool(CONFIGS, *base, "--describe")
