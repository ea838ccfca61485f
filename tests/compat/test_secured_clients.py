"""Clients that others wrote over every protocol and mechanism, with right and wrong credentials.

Each case is tried by each client that can do it, of librdkafka, kafka-python, aiokafka and Java's, all against one
broker. A refusal is told by the client, and by a
line of the broker's log.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.clients.secured_attempts import (
    Attempt,
    aiokafka_attempt,
    confluent_attempt,
    java_attempts,
    kafka_python_attempt,
)
from tests.support.clusters.secured_listeners import AUDIENCE, PASSWORD, PROTOCOLS, TOPIC, SecuredListeners
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK
from tests.support.servers.issuer import Issuer

pytestmark = pytest.mark.slow

JAVA = "java"
CLIENTS: Mapping[str, Callable[[Attempt], str | None]] = {
    "librdkafka": confluent_attempt,
    "kafka-python": kafka_python_attempt,
    "aiokafka": aiokafka_attempt,
}
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LOGINS = ("SASL_PLAINTEXT", "SASL_SSL")
NOT_BELIEVED = r"invalid credentials with SASL mechanism {}|SaslAuthenticationFailed"
HAS_GONE = r"down|closed|reset|EOF|disconnected|not present in metadata|Unable to bootstrap"
"""What clients say of a broker that ends the connection: whatever it is that has gone wrong."""

Changes = Callable[[SecuredListeners], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to connect.

    Attributes:
        name: of the case.
        listener: by which the client comes.
        changes: what the client does otherwise than that listener wants it.
        told: what the client says, a regular expression; empty if the record is written.
        logged: what the broker's log says.
        clients: that can do it; Java's can do all.
    """

    name: str
    listener: str
    changes: Changes = lambda _: {}
    told: str = ""
    logged: str = ""
    clients: tuple[str, ...] = tuple(CLIENTS)


def login(mechanism: str, user: str = "ann", password: str = PASSWORD) -> Changes:
    return lambda _: {"mechanism": mechanism, "user": user, "password": password}


def bearer(token: Callable[[SecuredListeners], str]) -> Changes:
    return lambda cluster: {"mechanism": "OAUTHBEARER", "bearer": token(cluster)}


def right_token(cluster: SecuredListeners) -> str:
    return cluster.issuer.token(aud=AUDIENCE)


def by_token(mechanism: str, *, ended: bool = False, secret: str = "") -> Changes:
    def changes(cluster: SecuredListeners) -> dict[str, Any]:
        token = cluster.ended_token if ended else cluster.token
        password = secret or token.secret
        return {"mechanism": mechanism, "user": token.id, "password": password, "by_delegation_token": True}

    return changes


def certificate(name: str) -> Changes:
    return lambda cluster: {"certificate": cluster.path(name)}


def at_once(*changes: Changes) -> Changes:
    return lambda cluster: {key: value for each in changes for key, value in each(cluster).items()}


def spoken(protocol: str) -> Changes:
    """The client speaks another protocol than the listener."""
    return lambda _: {"protocol": protocol}


def right_cases() -> Iterator[Case]:
    yield Case(name="plaintext", listener="PLAINTEXT")
    yield Case(name="tls", listener="SSL")
    yield Case(name="mutual-tls", listener="MUTUAL", changes=certificate("client"))
    for listener in LOGINS:
        name = listener.lower().replace("_", "-")
        yield Case(name=f"{name}-plain", listener=listener, changes=login("PLAIN"))
        yield Case(name=f"{name}-oauthbearer", listener=listener, changes=bearer(right_token))
        for mechanism in SCRAM:
            yield Case(name=f"{name}-{mechanism.lower()}", listener=listener, changes=login(mechanism))
            tokened = f"{name}-token-{mechanism.lower()}"
            yield Case(name=tokened, listener=listener, changes=by_token(mechanism), clients=())


def wrong_logins() -> Iterator[Case]:
    for listener in LOGINS:
        name = listener.lower().replace("_", "-")
        for mechanism in ("PLAIN", *SCRAM):
            refused = {"listener": listener, "told": NOT_BELIEVED.format(mechanism)}
            wrong = f"{name}-{mechanism.lower()}"
            password = "wrong password" if mechanism == "PLAIN" else "wrong proof|wrong password|proof"
            yield Case(
                name=f"{wrong}-wrong-password",
                changes=login(mechanism, password="another"),
                logged=password,
                **refused,
            )
        yield Case(
            name=f"{name}-unknown-user",
            listener=listener,
            changes=login("PLAIN", user="nobody"),
            told=NOT_BELIEVED.format("PLAIN"),
            logged="unknown user|no such user|nobody",
        )
    for mechanism in SCRAM:
        name = mechanism.lower()
        refused = {"listener": "SASL_SSL", "told": NOT_BELIEVED.format(mechanism)}
        gone = login(mechanism, user="gone")
        yield Case(name=f"{name}-deleted-user", changes=gone, logged="login failed", **refused)
        yield Case(
            name=f"{name}-expired-token",
            changes=by_token(mechanism, ended=True),
            clients=(),
            logged="login failed",
            **refused,
        )
        yield Case(
            name=f"{name}-wrong-token",
            changes=by_token(mechanism, secret="c2VjcmV0"),
            clients=(),
            logged="login failed",
            **refused,
        )
    tokens: dict[str, tuple[Callable[[SecuredListeners], str], str]] = {
        "expired": (lambda cluster: cluster.issuer.token(aud=AUDIENCE, life_s=-100), "the token expired"),
        "foreign": (lambda _: Issuer().token(aud=AUDIENCE), "login failed"),
        "other-audience": (lambda cluster: cluster.issuer.token(aud="others"), "audience"),
    }
    for name, (token, logged) in tokens.items():
        yield Case(
            name=f"oauthbearer-{name}",
            listener="SASL_SSL",
            changes=bearer(token),
            # aiokafka takes the error for the next step, and says that the connection was closed.
            told=f"{NOT_BELIEVED.format('OAUTHBEARER')}|Connection at .* closed",
            logged=logged,
        )


def wrong_certificates() -> Iterator[Case]:
    not_verified = "(?i)certificate.verify.failed|SSL handshake failed|SslAuthenticationException"
    yield Case(
        name="unknown-authority",
        listener="SSL",
        changes=lambda cluster: {"authority": cluster.path("foreign-ca.pem")},
        told=not_verified,
        logged="does not know the authority|does not accept the broker's certificate|has gone",
    )
    yield Case(
        name="wrong-host-name",
        listener="SSL",
        changes=lambda cluster: {"address": cluster.addresses["SSL"].replace(LOOPBACK, "localhost")},
        told=not_verified,
        logged="does not accept the broker's certificate|has gone",
    )
    yield Case(
        name="outdated-broker",
        listener="OUTDATED",
        told=not_verified,
        logged="finds that the broker's certificate has expired|does not accept the broker's certificate|has gone",
    )
    refused = {"listener": "MUTUAL", "told": f"certificate|(?i:unknown.ca)|{HAS_GONE}"}
    yield Case(name="no-certificate", logged="the client has no certificate", **refused)
    yield Case(
        name="outdated-certificate",
        changes=certificate("outdated-client"),
        logged="not accepted: certificate has expired",
        **refused,
    )
    yield Case(
        name="foreign-certificate",
        changes=certificate("foreign-client"),
        logged="not accepted: unable to get local issuer certificate",
        **refused,
    )


def wrong_protocols() -> Iterator[Case]:
    no_tls, no_login = "does not speak TLS; its security.protocol may be PLAINTEXT", "before it has logged in"
    plain = login("PLAIN")
    yield Case(name="plain-to-tls", listener="SSL", changes=spoken("PLAINTEXT"), told=HAS_GONE, logged=no_tls)
    yield Case(
        name="tls-to-plain",
        listener="PLAINTEXT",
        changes=spoken("SSL"),
        told=f"{HAS_GONE}|handshake|Unable connect",
        logged="begins with TLS, and the listener PLAINTEXT has none",
    )
    yield Case(
        name="login-without-tls-to-login-with-tls",
        listener="SASL_SSL",
        changes=at_once(spoken("SASL_PLAINTEXT"), plain),
        told=HAS_GONE,
        logged="does not speak TLS",
    )
    yield Case(
        name="login-with-tls-to-login-without-tls",
        listener="SASL_PLAINTEXT",
        changes=at_once(spoken("SASL_SSL"), plain),
        told=f"{HAS_GONE}|handshake|Unable connect",
        logged="begins with TLS, and the listener SASL_PLAINTEXT has none",
    )
    for listener, protocol in zip(LOGINS, ("PLAINTEXT", "SSL"), strict=True):
        name = f"{protocol.lower()}-to-{listener.lower()}"
        yield Case(name=name, listener=listener, changes=spoken(protocol), told=HAS_GONE, logged=no_login)
    yield Case(
        name="login-to-no-login",
        listener="PLAINTEXT",
        changes=at_once(spoken("SASL_PLAINTEXT"), plain),
        # Java's client has been seen to try again until its time was over.
        told="SASL state|IllegalSaslState|not present in metadata",
    )


CASES = [*right_cases(), *wrong_logins(), *wrong_certificates(), *wrong_protocols()]


def attempt_of(case: Case, cluster: SecuredListeners) -> Attempt:
    protocol = PROTOCOLS.get(case.listener, case.listener)
    settings: dict[str, Any] = {"address": cluster.addresses[case.listener], "protocol": protocol, "topic": TOPIC}
    settings["gets_in"] = not case.told
    settings |= case.changes(cluster)
    if settings["protocol"].endswith("SSL"):
        settings.setdefault("authority", cluster.path("ca.pem"))
    return Attempt(**settings)


def check(case: Case, told: str | None) -> None:
    if case.told:
        assert told is not None, "the record was written"
        assert re.search(case.told, told), told
    else:
        assert told is None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredListeners]:
    with SecuredListeners(tmp_path_factory.mktemp("secured")) as made:
        yield made


@pytest.fixture(scope="module")
def said_by_java(
    cluster: SecuredListeners, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str | None], str]:
    """What Java's client says of all cases, and what the broker's log says meanwhile."""
    begin = len(cluster.log())
    attempts = {case.name: attempt_of(case, cluster) for case in CASES}
    return java_attempts(attempts, tmp_path_factory.mktemp("attempts")), cluster.log()[begin:]


@pytest.mark.parametrize(
    ("client", "case"),
    [pytest.param(client, case, id=f"{client}-{case.name}") for case in CASES for client in case.clients],
)
def test_a_client_gets_in_by_right_credentials_only(cluster: SecuredListeners, client: str, case: Case) -> None:
    begin = len(cluster.log())
    check(case, CLIENTS[client](attempt_of(case, cluster)))
    eventually(lambda: re.search(case.logged, cluster.log()[begin:]), f"the broker's log says {case.logged!r}")


@pytest.mark.requires("kafka")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_javas_client_gets_in_by_right_credentials_only(
    said_by_java: tuple[dict[str, str | None], str], case: Case
) -> None:
    said, log = said_by_java
    check(case, said[case.name])
    assert re.search(case.logged, log)


def test_nobodys_secrets_are_in_the_log(cluster: SecuredListeners) -> None:
    log = cluster.log()
    assert not [each for each in (PASSWORD, cluster.token.secret, cluster.ended_token.secret) if each in log]
