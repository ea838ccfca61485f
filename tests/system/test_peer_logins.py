"""Brokers that log in to each other by SASL: they replicate, and a user of theirs is there before they are."""

from pathlib import Path

import pytest

from tests.support.clients.acknowledged_values import AcknowledgedValues
from tests.support.clusters.ottla_command import Ottla
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.servers.certificates import Certificates
from tests.support.servers.issuer import Issuer
from tests.support.servers.token_endpoint import TokenServer

pytestmark = pytest.mark.slow

TOPIC = "letters"
PASSWORD = "the brokers' password"
MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}


@pytest.mark.parametrize(
    ("mechanism", "protocol"),
    [("SCRAM-SHA-512", "SASL_PLAINTEXT"), ("PLAIN", "SASL_SSL"), ("SCRAM-SHA-512", "SASL_SSL")],
)
def test_followers_log_in_to_leaders(tmp_path: Path, mechanism: str, protocol: str) -> None:
    certificates = Certificates(tmp_path / "certificates")
    own = tmp_path / "own.pem"
    own.write_bytes(b"".join(certificates.path(f"server.{end}").read_bytes() for end in ("key", "pem")))
    users = f' user_broker="{PASSWORD}"' if mechanism == "PLAIN" else ""
    module = f"org.apache.kafka.common.security.{MODULES[mechanism]} required"
    ports = free_ports(2)
    cluster = ReplicatedCluster(
        tmp_path / "cluster",
        brokers=2,
        more_listeners={number: (f"PEERS://{LOOPBACK}:{port}",) for number, port in enumerate(ports, start=1)},
        controller_settings={"scram.bootstrap.users": f"SCRAM-SHA-512=[name=broker,password={PASSWORD}]"},
        broker_settings={
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,PEERS:{protocol}",
            "inter.broker.listener.name": "PEERS",
            "listener.name.peers.sasl.enabled.mechanisms": mechanism,
            f"listener.name.peers.{mechanism.lower()}.sasl.jaas.config": (
                f'{module} username="broker" password="{PASSWORD}"{users};'
            ),
            "listener.name.peers.connections.max.reauth.ms": "2000",
            "ssl.keystore.location": str(own),
            "ssl.truststore.location": str(certificates.path("ca.pem")),
        },
    )
    with cluster:
        cluster.create_topic(TOPIC, partitions=2)
        values = AcknowledgedValues(cluster.bootstrap, TOPIC)
        values.publish(*(f"before {number}" for number in range(100)))
        if mechanism != "PLAIN":
            users_listed = Ottla(cluster.bootstrap).json("user", "list")["users"]
            assert [each["user"] for each in users_listed] == ["broker"]
        # Followers come back by a new login after theirs has expired, and a leader that comes back is followed.
        cluster.brokers[1].kill()
        cluster.brokers[1].start()
        cluster.wait_for_isr(TOPIC, {1, 2})
        values.publish(*(f"afterwards {number}" for number in range(100)))
        assert not values.missing()
        for broker in cluster.brokers.values():
            assert PASSWORD not in broker.process.log.read_text()


def test_brokers_log_in_to_each_other_by_tokens(tmp_path: Path) -> None:
    """Each gets its token from an endpoint, and looks at those of others by the issuer's keys."""
    issuer = Issuer()
    keys = tmp_path / "keys.json"
    keys.write_bytes(issuer.key_set())
    ports = free_ports(2)
    with TokenServer() as tokens:
        tokens.gives(issuer.token("broker", life_s=3600))
        cluster = ReplicatedCluster(
            tmp_path / "cluster",
            brokers=2,
            more_listeners={number: (f"PEERS://{LOOPBACK}:{port}",) for number, port in enumerate(ports, start=1)},
            broker_settings={
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PEERS:SASL_PLAINTEXT",
                "inter.broker.listener.name": "PEERS",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "sasl.oauthbearer.token.endpoint.url": tokens.url,
                "listener.name.peers.oauthbearer.sasl.jaas.config": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
                    ' clientId="broker" clientSecret="hush";'
                ),
            },
        )
        with cluster:
            cluster.create_topic(TOPIC)
            values = AcknowledgedValues(cluster.bootstrap, TOPIC)
            values.publish(*(f"value {number}" for number in range(100)))
            assert not values.missing()
            assert tokens.asked
