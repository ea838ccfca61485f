"""Who clients are with a builder of principals, and without one."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_broker.client_plugins.finding import find_principal_builder
from ottla_broker.client_plugins.principals import Principals, UnknownClient
from ottla_broker.config import BrokerConfig
from ottla_core.config import validated
from ottla_core.errors import ConfigurationError
from ottla_core.principal import USER, Principal
from ottla_sdk import AuthenticatedClient, PrincipalBuilder, PrincipalRefused
from ottla_sdk import Principal as NamedPrincipal

ANN = Principal(USER, "ann")


class Scripted(PrincipalBuilder[Any]):
    def __init__(self, build: Callable[[AuthenticatedClient], Any]) -> None:
        self._build = build

    def build(self, client: AuthenticatedClient) -> NamedPrincipal:
        return self._build(client)  # type: ignore[no-any-return]


def named(principals: Principals, proved: Principal | None = ANN) -> Principal:
    return principals.name(
        proved,
        address="10.0.0.7",
        listener="L",
        protocol="SASL_SSL",
        mechanism="PLAIN",
        is_by_token=True,
        certificate=lambda: b"DER",
    )


def raised(error: Exception) -> Any:
    raise error


def test_a_client_is_what_it_has_proved() -> None:
    kafkas = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    for principals in (Principals(), Principals(find_principal_builder(kafkas, {}))):
        assert named(principals) == ANN
        with pytest.raises(UnknownClient, match=r"ssl\.principal\.mapping\.rules"):
            named(principals, None)


def test_a_listener_has_its_own_builder_before_that_of_all() -> None:
    of_all = Scripted(lambda _: NamedPrincipal("User", "all"))
    own = Scripted(lambda _: NamedPrincipal("User", "own"))
    assert named(Principals(of_all, {"L": own})) == Principal(USER, "own")
    assert named(Principals(of_all, {"OTHER": own})) == Principal(USER, "all")
    assert named(Principals(None, {"OTHER": own})) == ANN


LISTENERS = {
    "node.id": "1",
    "log.dirs": "/nowhere",
    "listeners": "BROKERS://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:PLAINTEXT",
}
OWN = "listener.name.clients.principal.builder"


def test_a_listeners_builder_has_its_own_settings_before_those_of_all() -> None:
    written = {
        "principal.builder.domain": "of all",
        "principal.builder.case": "lower",
        "principal.builder.class": "A",
    }
    config = validated(BrokerConfig, {**LISTENERS, **written, f"{OWN}.class": "B", f"{OWN}.domain": "own"}, {})
    assert config.principal_builders() == {"CLIENTS": "B"}
    assert config.principal_builder_settings("CLIENTS") == {
        "principal.builder.domain": "own",
        "principal.builder.case": "lower",
    }
    assert config.principal_builder_settings()["principal.builder.domain"] == "of all"
    assert BrokerConfig.is_secret(f"{OWN}.domain")


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (f"{OWN}.domain", "nothing reads this"),
        ("listener.name.client.principal.builder.class", "listeners names no CLIENT;"),
        ("listener.name.CLIENTS.principal.builder.class", "listeners names no CLIENTS;"),
    ],
)
def test_settings_of_a_builder_that_no_listener_has_are_refused(key: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        validated(BrokerConfig, {**LISTENERS, key: "x"}, {})


def test_a_builder_sees_what_is_known_of_a_client_and_names_it() -> None:
    seen: list[AuthenticatedClient] = []

    def build(client: AuthenticatedClient) -> NamedPrincipal:
        seen.append(client)
        return NamedPrincipal("Robot", "r2")

    assert named(Principals(Scripted(build))) == Principal("Robot", "r2")
    assert seen == [
        AuthenticatedClient(
            default=NamedPrincipal("User", "ann"),
            address="10.0.0.7",
            listener="L",
            security_protocol="SASL_SSL",
            mechanism="PLAIN",
            is_by_token=True,
            certificate=b"DER",
        )
    ]


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda _: raised(PrincipalRefused("of another domain")), "of another domain"),
        (lambda _: raised(KeyError("secret")), "has failed: KeyError"),
        (lambda _: None, "has returned NoneType"),
        (lambda _: Principal(USER, "ann"), "has returned Principal"),
        (lambda _: NamedPrincipal("User", ""), "no principal with a name"),
    ],
)
def test_who_is_not_named_is_refused(build: Callable[[AuthenticatedClient], Any], told: str) -> None:
    with pytest.raises(UnknownClient, match=told) as refused:
        named(Principals(Scripted(build)))
    assert "secret" not in str(refused.value)


def test_a_builder_that_nobody_has_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"principal\.builder\.class: no installed plugin"):
        find_principal_builder("acme.Builder", {})
