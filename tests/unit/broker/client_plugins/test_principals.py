"""Who clients are with a builder of principals, and without one."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_broker.client_plugins.finding import find_principal_builder
from ottla_broker.client_plugins.principals import Nobody, Principals
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
        with pytest.raises(Nobody, match=r"ssl\.principal\.mapping\.rules"):
            named(principals, None)


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
    with pytest.raises(Nobody, match=told) as refused:
        named(Principals(Scripted(build)))
    assert "secret" not in str(refused.value)


def test_a_builder_that_nobody_has_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"principal\.builder\.class: no installed plugin"):
        find_principal_builder("acme.Builder", {})
