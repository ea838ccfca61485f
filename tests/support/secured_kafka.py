"""An Apache Kafka with a listener that wants TLS, with a certificate of the client's, and a login."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.certificates import Certificates
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.reference_kafka import ReferenceKafka

PASSWORD = "pa,ss=word"
PLAIN_LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_worker="{PASSWORD}";'
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class SecuredKafka:
    """A Kafka and its users.

    Attributes:
        open: address of the listener that wants nothing.
        settings: a client's settings for the other one, but for the mechanism.
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
            # With logins Kafka takes it under the name of the listener only.
            "listener.name.sasl_ssl.ssl.client.auth": "required",
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
        }

    def add_scram_user(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.open})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(mechanism, 4096)
            upsertion = UserScramCredentialUpsertion("worker", credential, PASSWORD.encode())
            for future in admin.alter_user_scram_credentials([upsertion]).values():
                future.result(30)


@contextmanager
def secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    """One that runs, and knows the user."""
    kafka = ReferenceKafka(directory / "kafka")
    secured = SecuredKafka(kafka, Certificates(directory / "certificates"))
    with kafka:
        secured.add_scram_user()
        yield secured
