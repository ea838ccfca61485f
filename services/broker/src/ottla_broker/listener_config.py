"""The broker's settings of listeners: addresses, security protocols, and what differs between listeners.

Each has a name. Settings of TLS and SASL are told apart by `tls/tls_settings.py` and `sasl/sasl_settings.py`; here is
which of them each listener has, and whether all fit together.
"""

from collections.abc import Mapping
from typing import Annotated, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from ottla_broker.client_plugins.finding import BUILDER_PREFIX
from ottla_broker.sasl import sasl_settings
from ottla_broker.sasl.sasl_settings import PeerLoginSettings, SaslSettings
from ottla_broker.tls import tls_settings
from ottla_broker.tls.tls_settings import TlsSettings
from ottla_core.config import HostPort, ServiceConfig, parse_address
from ottla_core.dynamic_broker_config import listener_limit, listener_limit_problem
from ottla_core.errors import ConfigurationError, InvalidConfig

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
SECURITY_PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
"""Kafka's; a listener of such a name has that protocol, unless `listener.security.protocol.map` says otherwise."""
EVERY_INTERFACE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - nobody can connect to these, so they are refused
LISTENER_PREFIXES = (
    tls_settings.PREFIX,
    tls_settings.LISTENER_PREFIX,
    sasl_settings.PREFIX,
    sasl_settings.REAUTHENTICATION,
)
"""What settings begin with that are about listeners, and may differ between them."""


class ListenerAddress(NamedTuple):
    """One listener; prints as it is written in a configuration."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return ``NAME://HOST:PORT``."""
        return f"{self.name}://{HostPort(self.host, self.port)}"


class ListenerProtocol(NamedTuple):
    """The security protocol of the listeners of a name; prints as it is written in a configuration."""

    name: str
    protocol: str

    def __str__(self) -> str:
        """Return ``NAME:PROTOCOL``."""
        return f"{self.name}:{self.protocol}"


def _parse_listener(text: str) -> ListenerAddress:
    name, separator, address = text.partition("://")
    if not (separator and name):
        raise ValueError(f"write a listener as NAME://HOST:PORT, not {text!r}")
    return ListenerAddress(name.upper(), *parse_address(address))


def _parse_protocols(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(_parse_protocol(word.strip()) for word in value.split(",") if word.strip())


def _parse_protocol(text: str) -> ListenerProtocol:
    name, separator, protocol = text.partition(":")
    if not (separator and name):
        raise ValueError(f"write the protocol of a listener as NAME:PROTOCOL, not {text!r}")
    if protocol.upper() not in SECURITY_PROTOCOLS:
        raise ValueError(f"{text!r} names no security protocol; there are {', '.join(SECURITY_PROTOCOLS)}")
    return ListenerProtocol(name.upper(), protocol.upper())


def _parse_listeners(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(_parse_listener(word.strip()) for word in value.split(",") if word.strip())


Named = TypeVar("Named", ListenerAddress, ListenerProtocol)
Listeners = Annotated[tuple[ListenerAddress, ...], BeforeValidator(_parse_listeners)]
ListenerProtocols = Annotated[tuple[ListenerProtocol, ...], BeforeValidator(_parse_protocols)]


def builder_setting(key: str) -> str | None:
    """Return the setting of a builder of principals that a key gives a listener; None if it gives none."""
    _, _, name = key.removeprefix(tls_settings.LISTENER_PREFIX).partition(".")
    is_of_builder = key.startswith(tls_settings.LISTENER_PREFIX) and name.startswith(BUILDER_PREFIX)
    return name if is_of_builder else None


def _listener_key_problem(key: str, text: str) -> str | None:
    if builder_setting(key) is not None:
        return None
    if (limit := listener_limit(key)) is not None:
        if problem := listener_limit_problem(key):
            return problem
        try:
            limit.parse(text)
        except InvalidConfig as error:
            return error.message
        return None
    if sasl_settings.is_about_sasl(key):
        return sasl_settings.unknown_key_problem(key)
    return tls_settings.unknown_key_problem(key)


def _in_capitals(name: str | None) -> str | None:
    """Return a listener's name as `listeners` has it."""
    return name and name.upper()


class ListenerConfig(ServiceConfig):
    """Settings of listeners."""

    listeners: Listeners = Field(
        (ListenerAddress(PLAINTEXT, "127.0.0.1", 9092),),
        alias="listeners",
        min_length=1,
        description="Where clients connect: NAME://HOST:PORT, separated by commas. Port 0 takes any free port.",
    )
    advertised_listeners: Listeners = Field(
        (),
        alias="advertised.listeners",
        description="What clients are told, if not the listeners themselves; by listener name.",
    )
    listener_security_protocol_map: ListenerProtocols = Field(
        tuple(ListenerProtocol(name, name) for name in SECURITY_PROTOCOLS),
        alias="listener.security.protocol.map",
        description="The security protocol of the listeners of each name: NAME:PROTOCOL, separated by commas.",
    )
    inter_broker_listener_name: Annotated[str | None, AfterValidator(_in_capitals)] = Field(
        None,
        alias="inter.broker.listener.name",
        description="The listener through which brokers fetch from each other; by default the first one without TLS "
        "and logins, or else the first.",
    )
    listener_values: Mapping[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """What begins with `LISTENER_PREFIXES`; see `tls/tls_settings.py` and `sasl/sasl_settings.py`."""

    @classmethod
    def problems_of(cls, values: Mapping[str, str]) -> list[str]:
        """Return which limits, and which builders of principals, are of listeners that the broker does not have.

        That is asked of what was written for this broker: what is set at run time for all brokers may be for others.
        """
        names = {each.partition("://")[0].strip().lower() for each in values.get("listeners", PLAINTEXT).split(",")}
        limits = [key for key in values if listener_limit(key) is not None and listener_limit_problem(key) is None]
        limits += [key for key in values if builder_setting(key) is not None]
        return [
            *super().problems_of(values),
            *(
                f"{key}: listeners names no {key.split('.')[2].upper()}; it names {', '.join(sorted(names)).upper()}"
                for key in limits
                if key.split(".")[2] not in names
            ),
        ]

    @field_validator("listeners", "advertised_listeners", "listener_security_protocol_map")
    @classmethod
    def _check_names_are_unique(cls, named: tuple[Named, ...]) -> tuple[Named, ...]:
        """Refuse two listeners of one name: clients of one would be sent to the other's address."""
        names = [each.name for each in named]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"{', '.join(sorted(repeated))} names more than one listener; each needs its own name")
        return named

    @model_validator(mode="after")
    def _check_inter_broker_listener(self) -> Self:
        name = self.inter_broker_listener_name
        if name is not None and name not in {listener for listener, _, _ in self.listeners}:
            raise ValueError(f"inter.broker.listener.name is {name}, which listeners does not name")
        return self

    @model_validator(mode="after")
    def _check_protocols(self) -> Self:
        protocols = dict(self.listener_security_protocol_map)
        for listener in self.listeners:
            protocol = protocols.get(listener.name)
            if protocol is None:
                raise ValueError(
                    f"listener.security.protocol.map names no security protocol for the listener {listener.name}"
                )
        return self

    @property
    def inter_broker_listener(self) -> str:
        """The listener by which brokers fetch from each other: the one that is named, else the first plain one."""
        protocols = dict(self.listener_security_protocol_map)
        names = [listener.name for listener in self.listeners]
        plain = [name for name in names if protocols.get(name) == PLAINTEXT]
        return self.inter_broker_listener_name or (plain or names)[0]

    @model_validator(mode="after")
    def _check_listener_settings(self) -> Self:
        problems = [problem for each in self.listener_values.items() if (problem := _listener_key_problem(*each))]
        if problems:
            raise ValueError("; ".join(problems))
        try:
            self.tls_of_listeners()
            self.sasl_of_listeners()
            self.peer_login()
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return self

    def tls_of_listeners(self) -> dict[str, TlsSettings]:
        """Return the TLS settings of each listener that has TLS.

        Raises:
            ConfigurationError: they are not enough, or contradict each other.
        """
        protocols = dict(self.listener_security_protocol_map)
        return {
            name: tls_settings.tls_settings(name, self.listener_values, has_logins=protocols[name] == SASL_SSL)
            for name, _, _ in self.listeners
            if protocols.get(name) in (SSL, SASL_SSL)
        }

    def sasl_of_listeners(self) -> dict[str, SaslSettings]:
        """Return the SASL settings of each listener that has logins.

        Raises:
            ConfigurationError: they are not enough, or contradict each other.
        """
        protocols = dict(self.listener_security_protocol_map)
        return {
            name: sasl_settings.sasl_settings(name, self.listener_values)
            for name, _, _ in self.listeners
            if protocols.get(name) in (SASL_PLAINTEXT, SASL_SSL)
        }

    def peer_login(self) -> PeerLoginSettings | None:
        """Return how this broker logs in to others, None where their listener has no logins.

        Raises:
            ConfigurationError: the settings do not say it.
        """
        listener = self.inter_broker_listener
        if listener not in self.sasl_of_listeners():
            return None
        return sasl_settings.peer_login_settings(listener, self.listener_values)

    def listener_limit(self, listener: str, setting: str, otherwise: int) -> int:
        """Return a limit of one listener, or what holds where it has none of its own."""
        key = f"{tls_settings.LISTENER_PREFIX}{listener.lower()}.{setting}"
        text = self.listener_values.get(key)
        return otherwise if text is None else int(text)

    @model_validator(mode="after")
    def _check_advertised_listeners(self) -> Self:
        names = {name for name, _, _ in self.listeners}
        if unknown := [name for name, _, _ in self.advertised_listeners if name not in names]:
            raise ValueError(f"advertised.listeners names {', '.join(unknown)}, which listeners does not")
        advertised = {listener.name: listener for listener in (*self.listeners, *self.advertised_listeners)}
        for listener in advertised.values():
            if listener.host in EVERY_INTERFACE:
                raise ValueError(
                    f"clients cannot connect to {listener}; say in advertised.listeners"
                    f" at which address they reach the listener {listener.name}"
                )
        return self
