"""The broker's settings; keys, units and defaults are Kafka's where Kafka has them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

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
from ottla_broker.listener_config import LISTENER_PREFIXES, ListenerConfig, builder_setting
from ottla_broker.quotas.connection_limits import ConnectionLimits, ListenerLimits
from ottla_broker.replication_config import ReplicationConfig
from ottla_broker.sasl import sasl_settings
from ottla_broker.tls import tls_settings
from ottla_core.config import DescribedKey
from ottla_core.consumer_group_settings import ConsumerGroupSettings
from ottla_core.dynamic_broker_config import CREATION_RATE, MAX_CONNECTIONS, address_limits
from ottla_core.errors import InvalidConfig
from ottla_core.topic_config import TOPIC_CONFIG_DEFINITIONS, topic_defaults

MAX_INT = 2**31 - 1
DEDUPE_BUFFER_BYTES_MIN = 1024 * 1024
CONFIG_PROVIDERS = "config.providers"
PROVIDER_PARAMETER = ".param."
SECRETS_OF_LISTENERS = tls_settings.SECRETS | sasl_settings.SECRETS
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


def _paths(value: object) -> object:
    return tuple(Path(word.strip()) for word in value.split(",") if word.strip()) if isinstance(value, str) else value


class BrokerConfig(ClientControlConfig, ConsumerGroupSettings, ListenerConfig, ReplicationConfig):
    """All settings of a broker process."""

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

    transaction_state_log_num_partitions: int = Field(
        50,
        alias="transaction.state.log.num.partitions",
        ge=1,
        le=MAX_INT,
        description="Partitions of __transaction_state when it is created; must not change afterwards.",
    )
    transaction_state_log_replication_factor: int = Field(
        3,
        alias="transaction.state.log.replication.factor",
        ge=1,
        le=32767,
        description="Replicas of __transaction_state; it is not created while there are fewer brokers.",
    )
    transaction_state_log_min_isr: int = Field(
        2,
        alias="transaction.state.log.min.isr",
        ge=1,
        le=32767,
        description="In-sync replicas that writes to __transaction_state need; all of them, if there are fewer.",
    )
    transaction_state_log_segment_bytes: int = Field(
        100 * 1024 * 1024,
        alias="transaction.state.log.segment.bytes",
        ge=1,
        le=MAX_INT,
        description="Size of a segment of __transaction_state, in bytes; small ones are sooner compacted and read.",
    )
    add_partitions_to_txn_retry_backoff_ms: int = Field(
        20,
        alias="add.partitions.to.txn.retry.backoff.ms",
        ge=1,
        description="Milliseconds until a partition is added anew to a transaction whose predecessor still ends.",
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = Field(
        100,
        alias="add.partitions.to.txn.retry.backoff.max.ms",
        ge=0,
        description="Milliseconds after which the producer has to come again itself.",
    )

    topic_settings: Mapping[str, str] = Field(default_factory=dict, exclude=True)
    """The settings among `TOPIC_DEFAULT_KEYS` that were given, by their broker names."""
    config_providers: Mapping[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """`config.providers` and what is below it, as in Connect: what references in links' settings may refer to."""
    client_plugin_values: Mapping[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """What begins with `PLUGIN_PREFIXES`, but for the names of the classes."""
    open_prefixes: ClassVar[tuple[str, ...]] = (CONFIG_PROVIDERS, *LISTENER_PREFIXES, *PLUGIN_PREFIXES)

    @classmethod
    def fields_by_key(cls) -> Mapping[str, str]:
        """Return the field name of every key; the keys that give topic defaults stand for themselves."""
        own = {key: name for key, name in super().fields_by_key().items() if name not in GATHERED}
        return own | {key: key for key in TOPIC_DEFAULT_KEYS}

    @classmethod
    def is_secret(cls, key: str) -> bool:
        """Return whether a setting is shown to nobody; of plugins and config providers only they know, so all are."""
        if key in (AUTHORIZER_KEY, BUILDER_KEY):
            return False
        if (of_builder := builder_setting(key)) is not None:
            return of_builder != BUILDER_KEY
        is_parameter = key.startswith(CONFIG_PROVIDERS) and PROVIDER_PARAMETER in key
        of_listener = any(key == name or key.endswith(f".{name}") for name in SECRETS_OF_LISTENERS)
        return of_listener or is_parameter or key.startswith(PLUGIN_PREFIXES) or super().is_secret(key)

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
            DescribedKey(
                BUILDER_PREFIX,
                "default none",
                f"Settings of the class that {BUILDER_KEY} names. Also below listener.name.NAME.",
            ),
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

    @model_validator(mode="after")
    def _check_client_plugins(self) -> Self:
        named = {AUTHORIZER_PREFIX: self.authorizer_class_name, BUILDER_PREFIX: self.principal_builder_class}
        unread = [key for prefix, name in named.items() if not name for key in self._plugin_settings(prefix)]
        if not self.principal_builder_class:
            having = self.principal_builders()
            of_listeners = [key for key in self.listener_values if builder_setting(key) is not None]
            unread += [key for key in of_listeners if key.split(".")[2].upper() not in having]
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
                    connections=self.listener_limit(name, MAX_CONNECTIONS, connections[name]),
                    per_second=self.listener_limit(name, CREATION_RATE, per_second[name]),
                )
                for name in names
            },
            protected=protected,
            files=files,
        )

    def authorizer_settings(self) -> dict[str, str]:
        """Return the settings that the authorizer may read: its own, and those about rights that it may share."""
        return {
            SUPER_USERS: ";".join(self.super_users),
            ALLOWS_WITHOUT_LISTS: str(self.allow_everyone_if_no_acl_found).lower(),
            **self._plugin_settings(AUTHORIZER_PREFIX),
        }

    def principal_builders(self) -> dict[str, str]:
        """Return the class that names the clients of each listener that has one of its own."""
        keys = {name: f"{tls_settings.LISTENER_PREFIX}{name.lower()}.{BUILDER_KEY}" for name, _, _ in self.listeners}
        return {name: self.listener_values[key] for name, key in keys.items() if self.listener_values.get(key)}

    def principal_builder_settings(self, listener: str = "") -> dict[str, str]:
        """Return the settings of the builder of principals, of a listener what is its own before what is for all."""
        own = f"{tls_settings.LISTENER_PREFIX}{listener.lower()}."
        of_listener = {
            key.removeprefix(own): value
            for key, value in self.listener_values.items()
            if key.startswith(own) and builder_setting(key) not in (None, BUILDER_KEY)
        }
        return self._plugin_settings(BUILDER_PREFIX) | of_listener

    def _plugin_settings(self, prefix: str) -> dict[str, str]:
        return {key: value for key, value in self.client_plugin_values.items() if key.startswith(prefix)}

    def static_properties(self) -> dict[str, str]:
        """Return the settings that somebody gave, by key."""
        given = {key for key, name in self.fields_by_key().items() if name in self.model_fields_set}
        return {key: value for key, value in self.as_properties().items() if key in given} | dict(self.topic_settings)
