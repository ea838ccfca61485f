"""The broker's settings; keys, units and defaults are Kafka's where Kafka has them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ottla_broker.client_control_config import ClientControlConfig
from ottla_broker.client_plugins.finding import (
    ALLOWS_WITHOUT_LISTS,
    AUTHORIZER_KEY,
    AUTHORIZER_PREFIX,
    BUILDER_KEY,
    BUILDER_PREFIX,
    SUPER_USERS,
)
from ottla_broker.quotas.connection_limits import ConnectionLimits, ListenerLimits
from ottla_broker.replication_config import ReplicationConfig
from ottla_broker.sasl import sasl_settings
from ottla_broker.sasl.sasl_settings import PeerLoginSettings, SaslSettings
from ottla_broker.tls import tls_settings
from ottla_broker.tls.tls_settings import TlsSettings
from ottla_core.config import DescribedKey, HostPort, parse_address
from ottla_core.consumer_group_settings import ConsumerGroupSettings
from ottla_core.dynamic_broker_config import CREATION_RATE, MAX_CONNECTIONS, address_limits, listener_limit
from ottla_core.errors import ConfigurationError, InvalidConfig
from ottla_core.topic_config import TOPIC_CONFIG_DEFINITIONS, topic_defaults

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
SECURITY_PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
"""Kafka's; a listener of such a name has that protocol, unless `listener.security.protocol.map` says otherwise."""
EVERY_INTERFACE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - nobody can connect to these, so they are refused
MAX_INT = 2**31 - 1
DEDUPE_BUFFER_BYTES_MIN = 1024 * 1024
CONFIG_PROVIDERS = "config.providers"
LISTENER_PREFIXES = (
    tls_settings.PREFIX,
    tls_settings.LISTENER_PREFIX,
    sasl_settings.PREFIX,
    sasl_settings.REAUTHENTICATION,
)
"""What settings begin with that are about listeners, and may differ between them."""
PLUGIN_PREFIXES = (AUTHORIZER_PREFIX, BUILDER_PREFIX)
"""What the settings of the authorizer and of the builder of principals begin with, where a plugin has some."""
GATHERED = ("topic_settings", "config_providers", "listener_values", "client_plugin_values")
"""Fields that hold settings with keys of their own."""

TOPIC_DEFAULT_KEYS: Mapping[str, str] = MappingProxyType(
    {
        synonym.name: definition.name
        for definition in TOPIC_CONFIG_DEFINITIONS.values()
        for synonym in definition.synonyms
    }
)
"""Broker settings that only provide the default of a topic setting, with the topic setting's name."""


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


def _listener_key_problem(key: str, text: str) -> str | None:
    if (limit := listener_limit(key)) is not None:
        try:
            limit.parse(text)
        except InvalidConfig as error:
            return error.message
        return None
    if sasl_settings.is_about_sasl(key):
        return sasl_settings.unknown_key_problem(key)
    return tls_settings.unknown_key_problem(key)


def _paths(value: object) -> object:
    return tuple(Path(word.strip()) for word in value.split(",") if word.strip()) if isinstance(value, str) else value


class BrokerConfig(ClientControlConfig, ConsumerGroupSettings, ReplicationConfig):
    """All settings of a broker process."""

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
    broker_rack: str | None = Field(None, alias="broker.rack", description="Rack or zone the broker stands in.")

    log_dirs: Annotated[tuple[Path, ...], BeforeValidator(_paths)] = Field(
        alias="log.dirs", min_length=1, description="Directories of the partitions' logs, separated by commas."
    )
    num_partitions: int = Field(
        1, alias="num.partitions", ge=1, le=MAX_INT, description="Partitions of an automatically created topic."
    )
    default_replication_factor: int = Field(
        1,
        alias="default.replication.factor",
        ge=1,
        le=32767,
        description="Replicas of an automatically created topic.",
    )
    auto_create_topics_enable: bool = Field(
        True, alias="auto.create.topics.enable", description="Whether asking for an unknown topic creates it."
    )

    socket_request_max_bytes: int = Field(
        100 * 1024 * 1024,
        alias="socket.request.max.bytes",
        ge=1,
        le=MAX_INT,
        description="Largest request, in bytes.",
    )
    queued_max_request_bytes: int = Field(
        256 * 1024 * 1024,
        alias="queued.max.request.bytes",
        ge=1,
        description="Bytes of large requests that may be arriving at once, over all connections.",
    )
    max_connections: int = Field(
        MAX_INT,
        alias="max.connections",
        ge=1,
        le=MAX_INT,
        description="Connections at once, but for those of brokers where they have a listener of their own; never "
        "so many that logs lack file descriptors. Also as listener.name.NAME.max.connections.",
    )
    max_connections_per_ip: int = Field(
        MAX_INT, alias="max.connections.per.ip", ge=1, le=MAX_INT, description="Connections at once from one address."
    )
    connections_max_idle_ms: int = Field(
        600_000,
        alias="connections.max.idle.ms",
        ge=1,
        description="Milliseconds after which a connection on which nothing moves is closed.",
    )
    fetch_max_bytes: int = Field(
        55 * 1024 * 1024, alias="fetch.max.bytes", ge=1024, description="Largest fetch response, in bytes."
    )

    log_retention_check_interval_ms: int = Field(
        300_000,
        alias="log.retention.check.interval.ms",
        ge=1,
        description="Milliseconds between two looks for segments to delete.",
    )
    log_flush_scheduler_interval_ms: int = Field(
        1000,
        alias="log.flush.scheduler.interval.ms",
        ge=1,
        description="Milliseconds between two looks for logs that flush.ms makes due.",
    )
    log_flush_offset_checkpoint_interval_ms: int = Field(
        60_000,
        alias="log.flush.offset.checkpoint.interval.ms",
        ge=1,
        description="Milliseconds between two writes of the recovery points and log start offsets.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = Field(
        5000,
        alias="replica.high.watermark.checkpoint.interval.ms",
        ge=1,
        description="Milliseconds between two writes of the high watermarks.",
    )
    num_recovery_threads_per_data_dir: int = Field(
        2,
        alias="num.recovery.threads.per.data.dir",
        ge=1,
        description="Threads per log directory that open and recover logs at start.",
    )
    producer_id_expiration_ms: int = Field(
        86_400_000,
        alias="producer.id.expiration.ms",
        ge=1,
        description="Milliseconds after which a silent producer's sequence state is forgotten.",
    )
    producer_id_expiration_check_interval_ms: int = Field(
        600_000,
        alias="producer.id.expiration.check.interval.ms",
        ge=1,
        description="Milliseconds between two looks for producers to forget.",
    )
    log_cleaner_enable: bool = Field(
        True, alias="log.cleaner.enable", description="Whether topics whose cleanup.policy says so are compacted."
    )
    log_cleaner_threads: int = Field(
        1,
        alias="log.cleaner.threads",
        ge=1,
        description="Logs that are compacted at once, each by a process of its own.",
    )
    log_cleaner_dedupe_buffer_size: int = Field(
        128 * 1024 * 1024,
        alias="log.cleaner.dedupe.buffer.size",
        ge=DEDUPE_BUFFER_BYTES_MIN,
        description="Bytes for the keys of the logs that are being compacted, 24 a key, over all processes.",
    )
    log_cleaner_io_buffer_load_factor: float = Field(
        0.9,
        alias="log.cleaner.io.buffer.load.factor",
        gt=0,
        le=1,
        description="Share of the bytes for keys that may be in use.",
    )
    log_cleaner_io_buffer_size: int = Field(
        512 * 1024,
        alias="log.cleaner.io.buffer.size",
        ge=0,
        description="Bytes read and written at a time in compaction, over all processes.",
    )
    log_cleaner_io_max_bytes_per_second: float = Field(
        sys.float_info.max,
        alias="log.cleaner.io.max.bytes.per.second",
        gt=0,
        description="Bytes per second that compaction reads and writes at most, over all processes.",
    )
    log_cleaner_backoff_ms: int = Field(
        15_000,
        alias="log.cleaner.backoff.ms",
        ge=0,
        description="Milliseconds until logs are looked at again when there was none to compact.",
    )
    request_timeout_ms: int = Field(
        30_000,
        alias="request.timeout.ms",
        ge=1,
        description="Milliseconds the broker waits for the controller when a client sets no limit.",
    )

    telemetry_max_bytes: int = Field(
        1024 * 1024,
        alias="telemetry.max.bytes",
        ge=1,
        le=MAX_INT,
        description="Largest push of a client's metrics, in bytes as it is sent.",
    )

    offsets_topic_num_partitions: int = Field(
        50,
        alias="offsets.topic.num.partitions",
        ge=1,
        le=MAX_INT,
        description="Partitions of __consumer_offsets when it is created; must not change afterwards.",
    )
    offsets_topic_replication_factor: int = Field(
        3,
        alias="offsets.topic.replication.factor",
        ge=1,
        le=32767,
        description="Replicas of __consumer_offsets; it is not created while there are fewer brokers.",
    )
    offsets_topic_segment_bytes: int = Field(
        100 * 1024 * 1024,
        alias="offsets.topic.segment.bytes",
        ge=1,
        le=MAX_INT,
        description="Size of a segment of __consumer_offsets, in bytes; small ones are sooner compacted and read.",
    )

    topic_settings: Mapping[str, str] = Field(default_factory=dict, exclude=True)
    """The settings among `TOPIC_DEFAULT_KEYS` that were given, by their broker names."""
    config_providers: Mapping[str, str] = Field(default_factory=dict, exclude=True)
    """`config.providers` and what is below it, as in Connect: what references in links' settings may refer to."""
    listener_values: Mapping[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """What begins with `LISTENER_PREFIXES`; see `tls/tls_settings.py` and `sasl/sasl_settings.py`."""
    client_plugin_values: Mapping[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """What begins with `PLUGIN_PREFIXES`, but for the names of the classes."""
    open_prefixes: ClassVar[tuple[str, ...]] = (CONFIG_PROVIDERS, *LISTENER_PREFIXES, *PLUGIN_PREFIXES)

    @classmethod
    def fields_by_key(cls) -> Mapping[str, str]:
        """Return the field name of every key; the keys that give topic defaults stand for themselves."""
        own = {key: name for key, name in super().fields_by_key().items() if name not in GATHERED}
        return own | {key: key for key in TOPIC_DEFAULT_KEYS}

    @classmethod
    def described_keys(cls) -> list[DescribedKey]:
        """Return the broker's own keys and those that give topics their defaults."""
        return [
            *super().described_keys(),
            DescribedKey(
                CONFIG_PROVIDERS,
                "default none",
                "Names of the config providers by which references in links' settings are resolved, as in Connect;"
                " each with config.providers.NAME.class and config.providers.NAME.param.*.",
            ),
            *(
                DescribedKey(
                    key, f"default {default}", f"{meaning} Also as {tls_settings.LISTENER_PREFIX}NAME.{key}."
                )
                for key, (default, meaning) in {**tls_settings.DESCRIPTIONS, **sasl_settings.DESCRIPTIONS}.items()
            ),
            DescribedKey(AUTHORIZER_PREFIX, "default none", f"Settings of the class that {AUTHORIZER_KEY} names."),
            DescribedKey(BUILDER_PREFIX, "default none", f"Settings of the class that {BUILDER_KEY} names."),
            *(
                DescribedKey(key, "see the topic setting", f"Default of the topic setting {name}.")
                for key, name in TOPIC_DEFAULT_KEYS.items()
            ),
        ]

    @model_validator(mode="before")
    @classmethod
    def _gather_topic_settings(cls, values: Any) -> Any:
        given = {key: str(value) for key, value in values.items() if key in TOPIC_DEFAULT_KEYS}
        providers = {key: str(value) for key, value in values.items() if key.startswith(CONFIG_PROVIDERS)}
        of_listeners = {key: str(value) for key, value in values.items() if key.startswith(LISTENER_PREFIXES)}
        of_plugins = {
            key: str(value)
            for key, value in values.items()
            if key.startswith(PLUGIN_PREFIXES) and key not in (AUTHORIZER_KEY, BUILDER_KEY)
        }
        gathered = given | providers | of_listeners | of_plugins
        others = {key: value for key, value in values.items() if key not in gathered}
        return others | {
            "topic_settings": values.get("topic_settings", {}) | given,
            "config_providers": values.get("config_providers", {}) | providers,
            "listener_values": values.get("listener_values", {}) | of_listeners,
            "client_plugin_values": values.get("client_plugin_values", {}) | of_plugins,
        }

    @field_validator("topic_settings")
    @classmethod
    def _check_topic_settings(cls, settings: Mapping[str, str]) -> Mapping[str, str]:
        try:
            topic_defaults(settings)
        except InvalidConfig as error:
            raise ValueError(error.message) from None
        return settings

    @model_validator(mode="after")
    def _check_cleaner_memory(self) -> Self:
        share_bytes = self.log_cleaner_dedupe_buffer_size // self.log_cleaner_threads
        if share_bytes < DEDUPE_BUFFER_BYTES_MIN:
            raise ValueError(
                f"log.cleaner.dedupe.buffer.size leaves {share_bytes} bytes for each of log.cleaner.threads;"
                f" it must be at least {DEDUPE_BUFFER_BYTES_MIN}"
            )
        return self

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

    @model_validator(mode="after")
    def _check_client_plugins(self) -> Self:
        named = {AUTHORIZER_PREFIX: self.authorizer_class_name, BUILDER_PREFIX: self.principal_builder_class}
        unread = [key for prefix, name in named.items() if not name for key in self._plugin_settings(prefix)]
        if unread:
            raise ValueError(
                f"{', '.join(unread)}: nothing reads this; {AUTHORIZER_KEY} or {BUILDER_KEY} names no class"
            )
        return self

    def connection_limits(self, files: int) -> ConnectionLimits:
        """Return the limits of connections.

        Args:
            files: connections for which there are file descriptors.
        """
        names = [listener.name for listener in self.listeners]
        protected = self.inter_broker_listener if len(names) > 1 else None
        # The broker's limits are for clients; the listener among brokers has only those that name it.
        connections = {name: MAX_INT if name == protected else self.max_connections for name in names}
        per_second = {name: MAX_INT if name == protected else self.max_connection_creation_rate for name in names}
        return ConnectionLimits(
            connections=self.max_connections,
            per_second=self.max_connection_creation_rate,
            per_address=self.max_connections_per_ip,
            addresses=address_limits(self.max_connections_per_ip_overrides),
            listeners={
                name: ListenerLimits(
                    connections=self._listener_limit(name, MAX_CONNECTIONS, connections[name]),
                    per_second=self._listener_limit(name, CREATION_RATE, per_second[name]),
                )
                for name in names
            },
            protected=protected,
            files=files,
        )

    def _listener_limit(self, listener: str, setting: str, otherwise: int) -> int:
        key = f"{tls_settings.LISTENER_PREFIX}{listener.lower()}.{setting}"
        text = self.listener_values.get(key)
        return otherwise if text is None else int(text)

    def authorizer_settings(self) -> dict[str, str]:
        """Return the settings that the authorizer may read: its own, and those about rights that it may share."""
        return {
            SUPER_USERS: ";".join(self.super_users),
            ALLOWS_WITHOUT_LISTS: str(self.allow_everyone_if_no_acl_found).lower(),
            **self._plugin_settings(AUTHORIZER_PREFIX),
        }

    def principal_builder_settings(self) -> dict[str, str]:
        """Return the settings of the builder of principals."""
        return self._plugin_settings(BUILDER_PREFIX)

    def _plugin_settings(self, prefix: str) -> dict[str, str]:
        return {key: value for key, value in self.client_plugin_values.items() if key.startswith(prefix)}

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

    def static_properties(self) -> dict[str, str]:
        """Return the settings that somebody gave, by key."""
        given = {key for key, name in self.fields_by_key().items() if name in self.model_fields_set}
        return {key: value for key, value in self.as_properties().items() if key in given} | dict(self.topic_settings)
