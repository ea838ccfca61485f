"""`ottla cluster` asks an Apache Kafka through TLS, with a certificate, and every login that both know."""

from collections.abc import Iterator

import pytest

from tests.support.clusters.ottla_command import Ottla
from tests.support.reference.secured_kafka import SecuredKafka, secured_kafka

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        yield running


def typed(settings: dict[str, str]) -> list[str]:
    chosen = {name: value for name, value in settings.items() if name != "bootstrap.servers"}
    return [word for name, value in chosen.items() for word in ("-X", f"{name}={value}")]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_cluster_is_asked_and_changed_with_every_login(kafka: SecuredKafka, mechanism: str) -> None:
    ottla = Ottla(kafka.settings["bootstrap.servers"])
    settings = typed(kafka.login(mechanism))
    topic = f"flights-{mechanism.lower()}"
    ottla.run("topic", "create", topic, *settings)
    (broker,) = ottla.json("cluster", "describe", *settings)["brokers"]
    assert broker["address"] == kafka.settings["bootstrap.servers"]
    assert broker["disk_bytes"] is not None
    (elected,) = ottla.json("cluster", "elect-leaders", topic, *settings)
    assert elected["status"] == "not needed"
    altered = ottla.run("topic", "alter", topic, "--replication-factor", "1", "--yes", *settings)
    assert altered.stdout == b"nothing to do: 1 partition with 1 replica each\n"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sasl.password": "guessed"}, "lets this client not in"),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1"},
            "127.0.0.1:1",
        ),
        ({"ssl.certificate.location": "", "ssl.key.location": ""}, "not let this client in within"),
    ],
)
def test_who_is_not_let_in_is_told_why_in_a_line(kafka: SecuredKafka, changed: dict[str, str], words: str) -> None:
    settings = {**kafka.login("OAUTHBEARER"), **kafka.login("PLAIN"), **changed}
    chosen = typed({name: value for name, value in settings.items() if value})
    done = Ottla(kafka.settings["bootstrap.servers"]).run("cluster", "describe", *chosen, fails_with=1)
    told = done.stderr.decode()
    assert words in told
    # Besides one line for the secrets that are typed here as they are.
    assert len([line for line in told.splitlines() if "warning: " not in line]) == 1
    assert "guessed" not in told
