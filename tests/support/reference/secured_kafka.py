"""An Apache Kafka with a listener that wants TLS, with a certificate of the client's, and a login."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.reference.reference_kafka import ReferenceKafka
from tests.support.servers.certificates import Certificates
from tests.support.servers.token_endpoint import TokenServer

PASSWORD = "pa,ss=word"
PLAIN_LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_worker="{PASSWORD}";'
# Without a handler of another class Kafka takes tokens that nobody has signed.
TOKEN_LOGIN = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class SecuredKafka:
    """A Kafka and its users.

    Attributes:
        open: address of the listener that wants nothing.
        settings: a client's settings for the other one, but for the mechanism.
        tokens: gives tokens that the broker takes.
    """

    def __init__(self, kafka: ReferenceKafka, certificates: Certificates, tokens: TokenServer):
        (port,) = free_ports(1)
        server = certificates.path("server-with-key.pem")
        server.write_text(certificates.path("server.key").read_text() + certificates.path("server.pem").read_text())
        listeners = f"PLAINTEXT://{kafka.bootstrap},SASL_SSL://{LOOPBACK}:{port}"
        kafka._settings |= {
            "listeners": f"{listeners},CONTROLLER://{kafka.controller_address}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_LOGIN,
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN,
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": SCRAM_LOGIN,
            "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": TOKEN_LOGIN,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.path("ca.pem")),
            # With logins Kafka takes it under the name of the listener only.
            "listener.name.sasl_ssl.ssl.client.auth": "required",
            "group.min.session.timeout.ms": "500",
            "connections.max.reauth.ms": "4000",
        }
        self.tokens = tokens
        tokens.gives(unsigned_token("worker"))
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

    def login(self, mechanism: str) -> dict[str, str]:
        """A client's settings with a mechanism."""
        settings = {**self.settings, "sasl.mechanism": mechanism}
        if mechanism != "OAUTHBEARER":
            return settings
        del settings["sasl.username"], settings["sasl.password"]
        return settings | {
            "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
            "sasl.oauthbearer.client.id": "worker",
            "sasl.oauthbearer.client.secret": "hush",
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
    with TokenServer() as tokens:
        secured = SecuredKafka(kafka, Certificates(directory / "certificates"), tokens)
        with kafka:
            secured.add_scram_user()
            yield secured


def unsigned_token(user: str) -> str:
    """A token of an hour that says who somebody is, and that nobody has signed (RFC 7519, section 6)."""
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now_s, "exp": now_s + 3600})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."
