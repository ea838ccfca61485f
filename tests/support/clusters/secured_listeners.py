"""A broker with a listener for each way in which clients connect, and who may log in there; for tests of clients.

PLAINTEXT       nobody says who they are
SSL             the broker shows a certificate
MUTUAL          clients show one as well
OUTDATED        the broker's certificate has expired
SASL_PLAINTEXT  clients log in: PLAIN, SCRAM, OAUTHBEARER
SASL_SSL        likewise, over TLS
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.errors import ErrorCode
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.static.primitive import i64Timedelta

from ottla.secure.authority import Subject, issue, new_authority
from tests.support.clients.raw_client import RawClient
from tests.support.clusters.ottla_command import Ottla
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.servers.issuer import Issuer

TOPIC = "letters"
SECURED = ("SSL", "MUTUAL", "OUTDATED", "SASL_PLAINTEXT", "SASL_SSL")
PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "MUTUAL": "SSL", "OUTDATED": "SSL"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = "ann's word, with = and ž"
AUDIENCE = "ottla"
YEAR, DAY = timedelta(days=365), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Token:
    """A delegation token, as clients log in by it."""

    id: str
    secret: str


class SecuredListeners:
    """The broker, its users and certificates.

    Attributes:
        addresses: of each listener.
        issuer: signs bearer tokens that the broker takes.
        token: a delegation token of the user `owner`.
        ended_token: one that was expired.
    """

    token: Token
    ended_token: Token

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self._write_certificates()
        ports = free_ports(len(SECURED))
        self.addresses = {name: f"{LOOPBACK}:{port}" for name, port in zip(SECURED, ports, strict=True)}
        self.issuer = Issuer()
        keys = directory / "keys.json"
        keys.write_bytes(self.issuer.key_set())
        plain = f'{PLAIN_MODULE} required user_ann="{PASSWORD}" user_owner="{PASSWORD}";'
        self.cluster = ReplicatedCluster(
            directory / "cluster",
            brokers=1,
            more_listeners={1: [f"{name}://{address}" for name, address in self.addresses.items()]},
            broker_settings={
                "listener.security.protocol.map": ",".join(
                    f"{name}:{PROTOCOLS.get(name, name)}" for name in ("PLAINTEXT", *SECURED)
                ),
                "ssl.keystore.location": str(self.both("broker")),
                "listener.name.outdated.ssl.keystore.location": str(self.both("outdated")),
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.mutual.ssl.truststore.location": str(self.path("ca.pem")),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "delegation.token.secret.key": "the secret of tokens",
                "offsets.topic.replication.factor": "1",
                **{f"listener.name.sasl_{end}.plain.sasl.jaas.config": plain for end in ("ssl", "plaintext")},
                **(settings or {}),
            },
        )

    def __enter__(self) -> Self:
        self.cluster.__enter__()
        try:
            self.addresses["PLAINTEXT"] = self.cluster.bootstrap
            self.cluster.create_topic(TOPIC)
            self._create_users()
            self.token, self.ended_token = self._create_tokens()
        except BaseException as error:
            self.cluster.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.__exit__(kind, error, trace)

    def path(self, name: str) -> Path:
        """Returns a file: `NAME.pem`, `NAME.key`; or `NAME-both.pem` with both."""
        return self.directory / name

    def both(self, name: str) -> Path:
        return self.path(f"{name}-both.pem")

    def log(self) -> str:
        return self.cluster.brokers[1].process.log.read_text()

    def _write_certificates(self) -> None:
        now = datetime.now(UTC)
        authority, foreign = (new_authority(name, now - YEAR, 2 * YEAR) for name in ("authority", "foreign"))
        self.path("ca.pem").write_bytes(authority.chain)
        self.path("foreign-ca.pem").write_bytes(foreign.chain)
        for name, signer, begin in (
            ("broker", authority, now),
            ("outdated", authority, now - 3 * DAY),
            ("client", authority, now),
            ("outdated-client", authority, now - 3 * DAY),
            ("foreign-client", foreign, now),
        ):
            issued = issue(signer, Subject(name, (LOOPBACK,)), begin, DAY)
            self.path(f"{name}.pem").write_bytes(issued.chain)
            self.path(f"{name}.key").write_bytes(issued.key)
            self.both(name).write_bytes(issued.key + issued.chain)

    def _create_users(self) -> None:
        ottla = Ottla(self.cluster.bootstrap)
        both = [word for each in ("SCRAM-SHA-256", "SCRAM-SHA-512") for word in ("--mechanism", each)]
        for user in ("ann", "gone"):
            ottla.run("user", "create", user, *both, "--password-file", "-", stdin=f"{PASSWORD}\n".encode())
        ottla.run("user", "delete", "gone", "--yes")

    def _create_tokens(self) -> tuple[Token, Token]:
        with RawClient.to(self.addresses["SASL_PLAINTEXT"]) as owner:
            assert owner.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code is ErrorCode.none
            login = SaslAuthenticateRequest(auth_bytes=f"\0owner\0{PASSWORD}".encode())
            assert owner.ask(login).error_code is ErrorCode.none
            made = [self._create_token(owner) for _ in range(2)]
            at_once = i64Timedelta.parse(timedelta(milliseconds=-1))
            ended = owner.ask(ExpireDelegationTokenRequest(hmac=made[1].hmac, expiry_time_period=at_once))
            assert ended.error_code is ErrorCode.none
        first, second = (Token(each.token_id, base64.b64encode(each.hmac).decode()) for each in made)
        return first, second

    def _create_token(self, owner: RawClient) -> Any:
        asked = CreateDelegationTokenRequest(
            owner_principal_type=None,
            owner_principal_name=None,
            renewers=(),
            max_lifetime=i64Timedelta.parse(timedelta(hours=1)),
        )
        made = owner.ask(asked)
        assert made.error_code is ErrorCode.none
        return made
