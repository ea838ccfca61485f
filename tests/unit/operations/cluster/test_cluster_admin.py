"""How a cluster is reached, and what is told where it cannot be."""

import pytest

from ottla.cluster.cluster_connection import cluster_admin
from ottla_operations.cluster.cluster_admin import ClusterAdmin
from ottla_operations.errors import OperationError, UsageProblem
from tests.support.free_ports import free_port


def test_every_bootstrap_address_is_tried_and_named():
    first, second = free_port(), free_port()
    with ClusterAdmin(f"127.0.0.1:{first},127.0.0.1:{second}") as admin, pytest.raises(OperationError) as problem:
        admin.view()
    assert f"127.0.0.1:{first} (Connection refused), 127.0.0.1:{second} (Connection refused)" in str(problem.value)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (["securty.protocol=ssl"], 'No such configuration property: "securty.protocol"'),
        (["security.protocol=tls"], "--property security.protocol: 'tls' is none of PLAINTEXT, SSL"),
        (["security.protocol=ssl", "ssl.ca.location=/nowhere.pem"], "ssl.ca.location"),
        (
            ["security.protocol=sasl_ssl", "sasl.mechanism=OAUTHBEARER"],
            "--property sasl.oauthbearer.token.endpoint.url",
        ),
        (
            ["security.protocol=sasl_ssl", "sasl.mechanism=OAUTHBEARER", "enable.sasl.oauthbearer.unsecure.jwt=true"],
            "sasl.oauthbearer.token.endpoint.url and",
        ),
        (["security.protocol=sasl_ssl", "sasl.mechanism=PLAIN"], "sasl.username"),
    ],
)
def test_settings_that_cannot_be_used_are_told_before_anybody_is_asked(properties: list[str], words: str):
    with pytest.raises(OperationError) as problem:
        cluster_admin(f"127.0.0.1:{free_port()}", properties)
    assert words in str(problem.value)


def test_properties_are_pairs():
    with pytest.raises(UsageProblem, match="--property a: write it as KEY=VALUE"):
        cluster_admin("127.0.0.1:1", ["a"])
