"""Kafka's own commands make users and delegation tokens, and its clients log in by them, renewing their logins."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.java.kafka_tools import CONFIGS, CONSOLE_CONSUMER, CONSOLE_PRODUCER, run_tool, run_tool_anyhow
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.servers.certificates import Certificates

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]

DELEGATION_TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
TOPIC = "letters"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = "ann's word"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")


class UserTools:
    """A broker with a listener with logins over TLS, beside a plain one.

    Attributes:
        open: address of the plain listener.
        secured: address of the other one.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._certificates = Certificates(directory / "certificates")
        own = directory / "own.pem"
        own.write_bytes(b"".join(self._certificates.path(f"server.{end}").read_bytes() for end in ("key", "pem")))
        (port,) = free_ports(1)
        self.secured = f"{LOOPBACK}:{port}"
        self.cluster = ReplicatedCluster(
            directory / "cluster",
            brokers=1,
            more_listeners={1: (f"SASL_SSL://{self.secured}",)},
            broker_settings={
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
                "ssl.keystore.location": str(own),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_bob="bob\'s word";',
                "connections.max.reauth.ms": "4000",
                "delegation.token.secret.key": "the secret of tokens",
                "offsets.topic.replication.factor": "1",
            },
        )

    def client_file(self, name: str, mechanism: str, login: str) -> str:
        """A file of a client's settings."""
        file = self._directory / f"{name}.properties"
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        file.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.jaas.config={module} required {login};\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self._certificates.path('ca.pem')}\n"
            "request.timeout.ms=10000\ndefault.api.timeout.ms=15000\nmax.block.ms=15000\n"
        )
        return str(file)

    def login_file(self, user: str, password: str, mechanism: str) -> str:
        name = re.sub(r"\W", "-", f"{user} {password} {mechanism}")
        return self.client_file(name, mechanism, f'username="{user}" password="{password}"')

    def publish(self, client_file: str, value: str) -> str:
        arguments = ("--bootstrap-server", self.secured, "--topic", TOPIC, "--producer.config", client_file)
        return run_tool(CONSOLE_PRODUCER, *arguments, standard_input=f"{value}\n")

    def values(self, client_file: str, count: int) -> list[str]:
        """The first values of the topic, read without a group: here is no group coordinator."""
        output = run_tool(
            CONSOLE_CONSUMER,
            *("--bootstrap-server", self.secured, "--topic", TOPIC, "--partition", "0", "--offset", "earliest"),
            *("--max-messages", str(count), "--timeout-ms", "60000", "--consumer.config", client_file),
        )
        return output.splitlines()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserTools]:
    made = UserTools(tmp_path_factory.mktemp("users"))
    with made.cluster:
        made.cluster.create_topic(TOPIC)
        users = ("--bootstrap-server", made.cluster.bootstrap, "--entity-type", "users", "--entity-name", "ann")
        for added in (f"SCRAM-SHA-256=[iterations=8192,password={PASSWORD}]", f"SCRAM-SHA-512=[password={PASSWORD}]"):
            run_tool(CONFIGS, *users, "--alter", "--add-config", added)
        yield made


def test_javas_clients_log_in_by_each_mechanism(tools: UserTools) -> None:
    logins = (("ann", PASSWORD, "SCRAM-SHA-256"), ("ann", PASSWORD, "SCRAM-SHA-512"), ("bob", "bob's word", "PLAIN"))
    published: list[str] = []
    for user, password, mechanism in logins:
        file = tools.login_file(user, password, mechanism)
        tools.publish(file, mechanism)
        published.append(mechanism)
        read = tools.values(file, len(published))
        assert [line for line in read if line in MECHANISMS] == published, read


def test_javas_clients_say_that_a_login_failed(tools: UserTools) -> None:
    for user, mechanism in (("ann", "SCRAM-SHA-512"), ("nobody", "SCRAM-SHA-512"), ("bob", "PLAIN")):
        output = run_tool_anyhow(
            CONFIGS,
            *("--bootstrap-server", tools.secured, "--describe", "--entity-type", "topics", "--entity-name", TOPIC),
            *("--command-config", tools.login_file(user, "wrong", mechanism)),
        )
        assert "SaslAuthenticationException" in output
        assert f"due to invalid credentials with SASL mechanism {mechanism}" in output


def test_a_producer_of_javas_outlives_its_login(tools: UserTools) -> None:
    """Three records a second for thirteen seconds, with a login that holds for four."""
    output = run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", tools.secured, "--topic", TOPIC, "--num-records", "40", "--record-size", "10"),
        *("--throughput", "3", "--command-config", tools.login_file("ann", PASSWORD, "SCRAM-SHA-512")),
    )
    assert "40 records sent" in output
    assert "Exception" not in output


def test_delegation_tokens_are_made_used_and_ended(tools: UserTools) -> None:
    ann = tools.login_file("ann", PASSWORD, "SCRAM-SHA-512")
    there = ("--bootstrap-server", tools.secured, "--command-config", ann)
    created = run_tool(
        DELEGATION_TOKENS, *there, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    found = re.search(r"^(\S{22})\s+(\S{88})\s+User:ann\s+User:ann\s+\[User:bob\]", created, re.MULTILINE)
    assert found is not None, created
    token_id, secret = found.groups()
    login = f'username="{token_id}" password="{secret}" tokenauth="true"'
    token_file = tools.client_file("token", "SCRAM-SHA-256", login)
    tools.publish(token_file, "by a token")
    refused = run_tool_anyhow(
        DELEGATION_TOKENS, "--bootstrap-server", tools.secured, "--command-config", token_file, "--describe"
    )
    assert "DelegationTokenDisabledException" in refused or "not allowed" in refused
    assert token_id in run_tool(DELEGATION_TOKENS, *there, "--describe", "--owner-principal", "User:ann")
    run_tool(DELEGATION_TOKENS, *there, "--renew", "--renew-time-period", "-1", "--hmac", secret)
    run_tool(DELEGATION_TOKENS, *there, "--expire", "--expiry-time-period", "-1", "--hmac", secret)
    assert token_id not in run_tool(DELEGATION_TOKENS, *there, "--describe")
    output = run_tool_anyhow(
        CONFIGS,
        *("--bootstrap-server", tools.secured, "--describe", "--entity-type", "topics", "--entity-name", TOPIC),
        *("--command-config", token_file),
    )
    assert "SaslAuthenticationException" in output


def test_a_user_is_deleted(tools: UserTools) -> None:
    users = ("--bootstrap-server", tools.cluster.bootstrap, "--alter", "--entity-type", "users", "--entity-name")
    run_tool(CONFIGS, *users, "carla", "--add-config", "SCRAM-SHA-512=[password=word]")
    tools.publish(tools.login_file("carla", "word", "SCRAM-SHA-512"), "of carla's")
    run_tool(CONFIGS, *users, "carla", "--delete-config", "SCRAM-SHA-512")
    refused = run_tool_anyhow(CONFIGS, *users, "carla", "--delete-config", "SCRAM-SHA-512")
    assert "ResourceNotFoundException" in refused or "does not exist" in refused
