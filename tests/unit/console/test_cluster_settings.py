"""Clusters in the console's settings."""

import pytest

from ottla_console.config.cluster_settings import cluster_settings
from ottla_console.config.console_config import ConsoleConfig
from ottla_core.errors import ConfigurationError

PROD = {"cluster.prod.bootstrap.servers": "k:9092"}


def test_a_cluster_with_sasl_needs_sign_in_and_one_without_does_not() -> None:
    written = {
        **PROD,
        "cluster.prod.client.security.protocol": "SASL_SSL",
        "cluster.prod.client.sasl.mechanism": "PLAIN",
        "cluster.test.bootstrap.servers": "t:1",
    }
    found = cluster_settings(("prod", "test"), written)
    assert found["prod"].needs_sign_in
    assert not found["test"].needs_sign_in
    shared = cluster_settings(("prod", "test"), {**written, "cluster.prod.login": "shared"})
    assert not shared["prod"].needs_sign_in
    assert not found["prod"].connect_changes  # workers would not know who of the users asks
    assert shared["prod"].connect_changes
    chosen = cluster_settings(("prod", "test"), {**written, "cluster.prod.connect.changes": "allowed"})
    assert chosen["prod"].connect_changes


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({}, r"cluster.prod.bootstrap.servers: must be set"),
        ({**PROD, "cluster.prod.rubbish": "1"}, "cluster.prod.rubbish: unknown"),
        ({**PROD, "cluster.other.bootstrap.servers": "x:1"}, "no such cluster"),
        ({**PROD, "cluster.prod.login": "user"}, "sign in by SASL"),
        ({**PROD, "cluster.prod.etcd.cluster.name": "a/b"}, "etcd.cluster.name: it has letters"),
        ({**PROD, "cluster.prod.login": "nobody"}, "user or shared"),
        ({**PROD, "cluster.prod.connect.changes": "yes"}, "allowed or refused"),
        ({**PROD, "cluster.prod.client.plugin.library.paths": "/x.so"}, "native code"),
        ({**PROD, "cluster.prod.client.bootstrap.servers": "x:1"}, "write cluster.prod.bootstrap.servers"),
    ],
)
def test_what_is_wrong_is_named(written: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        cluster_settings(("prod",), written)


def test_settings_come_from_variables_and_references_are_looked_up() -> None:
    environment = {
        "OTTLA_CLUSTERS": "prod",
        "OTTLA_CLUSTER_PROD_BOOTSTRAP_SERVERS": "k:9092",
        "OTTLA_CLUSTER_PROD_CLIENT_SASL_PASSWORD": "${env:SECRET}",
    }
    config = ConsoleConfig.load([], environment)
    assert config.shown_clusters({"SECRET": "word"})["prod"].client["sasl.password"] == "word"
    with pytest.raises(ConfigurationError, match="SECRET"):
        config.shown_clusters({})
    assert not config.is_secure
