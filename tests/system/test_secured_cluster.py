"""`ottla cluster` and what moves replicas, through TLS and logins: a real broker behind a front that wants both."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ottla_operations.cluster.cluster_admin import ClusterAdmin
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually
from tests.support.servers.certificates import Certificates
from tests.support.servers.secured_front import SecuredFront

pytestmark = pytest.mark.slow

USER, PASSWORD = "operator", "pa,ss=word"
VARIABLES = {"PASSWORD": PASSWORD, "GUESS": "guessed"}
"""Passwords stand in the environment, as a typed one is warned of."""


@dataclass
class Place:
    """A cluster of one broker, which is advertised at the front's port.

    Attributes:
        front: what clients have to pass.
        settings: what a client has to know for it.
        ottla: the command, with the front's address.
    """

    front: SecuredFront
    settings: dict[str, str]
    ottla: Ottla

    @property
    def typed(self) -> list[str]:
        """The settings as they are typed."""
        references = {value: f"${{env:{name}}}" for name, value in VARIABLES.items()}
        return [
            word for name, value in self.settings.items() for word in ("-X", f"{name}={references.get(value, value)}")
        ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("secured-cluster")
    certificates = Certificates(folder / "certificates")
    settings = {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(certificates.path("ca.pem")),
        "ssl.certificate.location": str(certificates.path("client.pem")),
        "ssl.key.location": str(certificates.path("client.key")),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    front = SecuredFront(0, certificates=certificates, wants_client_certificate=True, passwords={USER: PASSWORD})
    advertised = ("--set", f"broker:advertised.listeners=PLAINTEXT://127.0.0.1:{front.port}")
    with front, OttlaCluster(folder / "cluster", arguments=advertised) as cluster:
        front.target_port = int(cluster.bootstrap.rpartition(":")[2])
        ottla = Ottla(f"127.0.0.1:{front.port}")
        ottla.environment |= {"XDG_CONFIG_HOME": str(folder), **VARIABLES}
        place = Place(front, settings, ottla)
        ottla.run("topic", "create", "flights", "--partitions", "2", *place.typed)
        yield place


def test_every_cluster_command_takes_client_settings(place: Place) -> None:
    described = place.ottla.json("cluster", "describe", *place.typed)
    (broker,) = described["brokers"]
    assert broker["address"] == f"127.0.0.1:{place.front.port}"
    assert broker["disk_bytes"] is not None  # that broker was asked itself
    assert described["offline"] == []
    commands = [
        ("cluster", "rebalance", "--yes"),
        ("cluster", "elect-leaders", "flights"),
        ("cluster", "reassign", "--list"),
        ("cluster", "decommission", "9", "--unregister", "--yes"),
        ("topic", "alter", "flights", "--replication-factor", "1", "--yes"),
    ]
    for command in commands[:3] + commands[4:]:
        place.ottla.run(*command, *place.typed)
    assert set(place.front.logins) == {"SCRAM-SHA-512"}


def test_a_profiles_settings_are_used(place: Place) -> None:
    bootstrap = place.ottla.environment["OTTLA_BOOTSTRAP"]
    place.ottla.run("profile", "create", "secured", "-b", bootstrap, *place.typed)
    with_profile = Ottla(bootstrap)
    with_profile.environment = {**place.ottla.environment, "OTTLA_PROFILE": "secured"}
    assert with_profile.json("cluster", "describe")["topics"] >= 1
    assert with_profile.run("cluster", "reassign", "--list").stdout == b"nothing is being moved\n"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sasl.password": "guessed"}, "lets this client not in"),
        ({"ssl.ca.location": None}, "certificate verify failed"),
        ({"security.protocol": "sasl_plaintext"}, "it wants TLS: add --property security.protocol=ssl"),
        (
            {"sasl.mechanism": "OAUTHBEARER", "enable.sasl.oauthbearer.unsecure.jwt": "true"},
            "client.secret: must be set for OAUTHBEARER",
        ),
        ({"sasl.mechnism": "PLAIN"}, 'No such configuration property: "sasl.mechnism"'),
    ],
)
def test_who_is_not_let_in_is_told_why_in_a_line(place: Place, changed: dict[str, str | None], words: str) -> None:
    settings = {name: value for name, value in {**place.settings, **changed}.items() if value is not None}
    typed = Place(place.front, settings, place.ottla).typed
    done = place.ottla.run("cluster", "describe", *typed, fails_with=1)
    told = done.stderr.decode()
    assert words in told
    assert told.count("\n") == 1
    assert "guessed" not in told


def test_what_lasts_longer_than_a_session_logs_in_anew(place: Place) -> None:
    place.front.session_s = 0.5
    try:
        with ClusterAdmin(place.ottla.environment["OTTLA_BOOTSTRAP"], place.settings) as admin:
            brokers = admin.view().brokers.values()
            before = len(place.front.logins)

            def has_logged_in_anew() -> bool:
                assert admin.moves() == {}
                assert set(admin.disks(brokers)) == {broker.id for broker in brokers}
                return len(place.front.logins) >= before + 4

            eventually(has_logged_in_anew, "both connections were made anew")
    finally:
        place.front.session_s = 0.0
