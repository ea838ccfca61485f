"""Connect workers form a group of an Apache Kafka, through TLS and SASL, and Kafka's own tool lists it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.compat.java.kafka_tools import GROUPS, run_tool
from tests.support.certificates import Certificates
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.group_workers import GroupWorker, Watch, is_even
from tests.support.reference_kafka import ReferenceKafka

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

CONNECTORS = {"flights": 4, "orders": 2}
PASSWORD = "pa,ss=word"
PLAIN_LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_worker="{PASSWORD}";'
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class SecuredKafka:
    """An Apache Kafka with a listener that wants TLS (with a client's certificate) and a password.

    Attributes:
        open: address of the listener that wants nothing.
        settings: a worker's client settings for the other one, but for the mechanism.
    """

    def __init__(self, kafka: ReferenceKafka, certificates: Certificates):
        (port,) = free_ports(1)
        server = certificates.path("server-with-key.pem")
        server.write_text(certificates.path("server.key").read_text() + certificates.path("server.pem").read_text())
        listeners = f"PLAINTEXT://{kafka.bootstrap},SASL_SSL://{LOOPBACK}:{port}"
        kafka._settings |= {
            "listeners": f"{listeners},CONTROLLER://{kafka.controller_address}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_LOGIN,
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN,
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": SCRAM_LOGIN,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.path("ca.pem")),
            "ssl.client.auth": "required",
            "group.min.session.timeout.ms": "500",
            "connections.max.reauth.ms": "4000",
        }
        self.open = kafka.bootstrap
        self.settings = {
            "bootstrap.servers": f"{LOOPBACK}:{port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(certificates.path("ca.pem")),
            "ssl.certificate.location": str(certificates.path("client.pem")),
            "ssl.key.location": str(certificates.path("client.key")),
            "sasl.username": "worker",
            "sasl.password": PASSWORD,
            "session.timeout.ms": "3000",
            "heartbeat.interval.ms": "200",
            "scheduled.rebalance.max.delay.ms": "1000",
        }

    def add_scram_user(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.open})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(mechanism, 4096)
            upsertion = UserScramCredentialUpsertion("worker", credential, PASSWORD.encode())
            for future in admin.alter_user_scram_credentials([upsertion]).values():
                future.result(30)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    directory = tmp_path_factory.mktemp("secured")
    kafka = ReferenceKafka(directory / "kafka")
    secured = SecuredKafka(kafka, Certificates(directory / "certificates"))
    with kafka:
        secured.add_scram_user()
        yield secured


def test_workers_with_all_mechanisms_share_the_work_and_the_tool_lists_their_group(kafka: SecuredKafka) -> None:
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    workers = [
        GroupWorker(f"http://{each.lower()}:8083", {**kafka.settings, "sasl.mechanism": each}, CONNECTORS)
        for each in mechanisms
    ]
    try:
        with Watch(lambda: workers):
            eventually(lambda: is_even(workers, CONNECTORS), "the work is shared", within_s=60)
            groups = run_tool(GROUPS, "--bootstrap-server", kafka.open, "--list")
            assert re.search(r"^connect-cluster\s+Classic\s+connect\s*$", groups, re.MULTILINE), groups
            workers.pop().kill()  # until that is noticed takes longer than a SASL session lasts
            eventually(lambda: is_even(workers, CONNECTORS), "the work has moved", within_s=60)
            assert not any(worker.losses for worker in workers)
    finally:
        for worker in workers:
            worker.close()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"sasl.mechanism": "SCRAM-SHA-512", "sasl.password": "wrong"}, "does not accept worker"),
        ({"sasl.mechanism": "PLAIN", "sasl.password": "wrong"}, "does not accept worker"),
        ({"sasl.mechanism": "PLAIN", "ssl.ca.location": "client.pem"}, "certificate"),
    ],
)
def test_who_is_not_let_in_is_told_why(kafka: SecuredKafka, settings: dict[str, str], reason: str) -> None:
    authority = Path(kafka.settings["ssl.ca.location"])
    if "ssl.ca.location" in settings:
        settings = {**settings, "ssl.ca.location": str(authority.with_name(settings["ssl.ca.location"]))}
    worker = GroupWorker("http://a", {**kafka.settings, **settings}, CONNECTORS)
    try:
        failure = eventually(lambda: worker.failure, "the worker gives up", within_s=30)
        assert reason in str(failure)
        assert "wrong" not in str(failure)
    finally:
        worker.close()
