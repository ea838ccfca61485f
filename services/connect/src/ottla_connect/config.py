"""Settings of a Connect worker, by Kafka's keys (its WorkerConfig, DistributedConfig and StandaloneConfig).

`WorkerConfig.load` reads them from file, environment and command line; `WorkerConfig.parse` from a mapping, as the
processes of connectors and tasks do with `WorkerConfig.raw`. Settings of converters, config providers and Kafka
clients lie below open prefixes: they are kept as they were written and judged by those whom they concern.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from ottla_connect.client_settings import (
    CLIENT_KEYS,
    INT32_MAX,
    RULES,
    ClientKind,
    client_problems,
    layered,
    override_problems,
)
from ottla_connect.connector_policy import ConnectorPolicySettings
from ottla_connect.storage_settings import StorageSettings
from ottla_connect.task_defaults import TaskDefaults
from ottla_core.config import (
    CommaSeparated,
    MetricsSettings,
    argument_parser,
    validated,
    written_settings,
)
from ottla_core.environment_settings import variable_name
from ottla_core.rest.settings import REST_EXTENSIONS, RestSettings
from ottla_core.trace_settings import TraceSettings
from ottla_sdk import Problem
from ottla_sdk.kafka.client_settings import ClientSettingError, librdkafka_settings
from ottla_sdk.kafka.secret_settings import is_secret_setting

DEFAULT_POLL_RECORDS_MAX = 500
WRITE_SHARE = 0.8
"""So much a write may take of what a lease has left when a heartbeat is due; the rest is for that one's answer."""
WRITE_SHARE_MIN = 0.05
"""So much of a whole lease it may take at least, where heartbeats are as rare as can be."""

# Kafka's signature algorithms (Java's names) and Python's names of their hashes.
SIGNATURE_HASHES = {
    "HmacMD5": "md5",
    "HmacSHA1": "sha1",
    "HmacSHA224": "sha224",
    "HmacSHA256": "sha256",
    "HmacSHA384": "sha384",
    "HmacSHA512": "sha512",
}
SignatureAlgorithm = Literal["HmacMD5", "HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512"]

# Settings of Kafka's workers that cannot mean anything here.
REFUSED = {
    "config.storage.partitions": "the config topic always has one partition; remove it",
    "internal.key.converter": "the internal topics always hold JSON; remove it",
    "internal.value.converter": "the internal topics always hold JSON; remove it",
    "plugin.discovery": "plugins are Python packages, found by their entry points; remove it",
    "plugin.path": "plugins are Python packages: install them with pip beside the worker, and remove this",
    "rest.extension.classes": REST_EXTENSIONS,
}


def _lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class WorkerConfig(
    TraceSettings, MetricsSettings, RestSettings, StorageSettings, TaskDefaults, ConnectorPolicySettings
):
    """What a worker can be told; see `ServiceConfig` for where the values come from."""

    model_config = ConfigDict(extra="allow")
    open_prefixes: ClassVar[tuple[str, ...]] = (
        "key.converter.",
        "value.converter.",
        "header.converter.",
        "config.providers.",
        "producer.",
        "consumer.",
        "admin.",
        "config.storage.",
        "offset.storage.",
        "status.storage.",
    )
    open_file_keys: ClassVar[tuple[str, ...]] = (".assertion.file", ".assertion.private.key.file", ".template.file")

    bootstrap_servers: CommaSeparated = Field(
        ("localhost:9092",),
        alias="bootstrap.servers",
        min_length=1,
        description="HOST:PORT of some brokers, separated by commas.",
    )
    group_id: str = Field(
        "connect-cluster", alias="group.id", min_length=1, description="Name of the group that the workers form."
    )
    session_timeout_ms: int = Field(
        10000,
        alias="session.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds after which a silent worker loses its connectors and tasks to the others.",
    )
    heartbeat_interval_ms: int = Field(
        1000,
        alias="heartbeat.interval.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds between heartbeats; less than session.timeout.ms.",
    )
    rebalance_timeout_ms: int = Field(
        60000,
        alias="rebalance.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds that workers have to stop what they lose and to join a rebalance.",
    )
    connect_protocol: Literal["compatible", "sessioned"] = Field(
        "sessioned",
        alias="connect.protocol",
        description="Group protocol: sessioned (requests between workers are signed) or compatible.",
    )
    scheduled_rebalance_max_delay_ms: int = Field(
        10000,
        alias="scheduled.rebalance.max.delay.ms",
        ge=0,
        le=INT32_MAX,
        description="Milliseconds to wait for a departed worker's return before others take over its tasks.",
    )
    worker_sync_timeout_ms: int = Field(
        3000,
        alias="worker.sync.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds that a worker behind the others has to read the config topic.",
    )
    exactly_once_source_support: Annotated[
        Literal["disabled", "preparing", "enabled"], BeforeValidator(_lower_case)
    ] = Field(
        "disabled",
        alias="exactly.once.source.support",
        description="Whether source tasks write in transactions (enabled). Workers that run are first started again "
        "with preparing, one after the other, then with enabled.",
    )
    inter_worker_key_generation_algorithm: SignatureAlgorithm = Field(
        "HmacSHA256",
        alias="inter.worker.key.generation.algorithm",
        description="Algorithm that the keys are for which sign requests between workers.",
    )
    inter_worker_key_size: int | None = Field(
        None, alias="inter.worker.key.size", ge=40, description="Bits of those keys; by default as the algorithm has."
    )
    inter_worker_key_ttl_ms: int = Field(
        3600000,
        alias="inter.worker.key.ttl.ms",
        ge=0,
        le=INT32_MAX,
        description="Milliseconds after which such a key is replaced.",
    )
    inter_worker_signature_algorithm: SignatureAlgorithm = Field(
        "HmacSHA256", alias="inter.worker.signature.algorithm", description="Algorithm by which this worker signs."
    )
    inter_worker_verification_algorithms: CommaSeparated = Field(
        ("HmacSHA256",),
        alias="inter.worker.verification.algorithms",
        description="Algorithms by which other workers may sign, separated by commas; this worker's is one of them.",
    )
    topic_tracking_enable: bool = Field(
        True, alias="topic.tracking.enable", description="Whether the topics that connectors use are recorded."
    )
    topic_tracking_allow_reset: bool = Field(
        True, alias="topic.tracking.allow.reset", description="Whether users may reset the recorded topics."
    )
    config_providers: CommaSeparated = Field(
        (), alias="config.providers", description="Names of config providers, separated by commas."
    )
    standalone: bool = Field(
        False, alias="standalone", description="Whether the worker runs alone, its state in memory and a file."
    )
    standalone_connector_files: CommaSeparated = Field(
        (),
        alias="standalone.connector.files",
        description="Files with connectors that a standalone worker runs, separated by commas; arguments add to it.",
    )
    offset_storage_file_filename: Path | None = Field(
        None,
        alias="offset.storage.file.filename",
        description="File for source offsets of a standalone worker.",
    )
    log_level: str = Field(
        "info",
        alias="log.level",
        pattern="^(debug|info|warning|error)$",
        description="Least severe level that is logged: debug, info, warning or error.",
    )

    @classmethod
    def known_keys(cls) -> frozenset[str]:
        """Return every key that is accepted by its full name: those of the fields and of the worker's own clients."""
        return super().known_keys() | CLIENT_KEYS

    @classmethod
    def is_secret(cls, key: str) -> bool:
        """Return whether a setting is shown to nobody; of clients, converters and providers by its name."""
        return super().is_secret(key) or (key not in super().known_keys() and is_secret_setting(key))

    @classmethod
    def accepts(cls, key: str) -> bool:
        """Return whether a key is known or begins with an open prefix."""
        return key not in REFUSED and super().accepts(key)

    @classmethod
    def why_refused(cls, key: str) -> str:
        """Return why a key is not accepted; for settings of Kafka's workers, what to do instead."""
        return REFUSED.get(key) or super().why_refused(key)

    @classmethod
    def problems_of(cls, values: Mapping[str, str]) -> list[str]:
        """Return what is wrong with the settings of Kafka clients and internal topics."""
        own = {key: value for key, value in values.items() if key in CLIENT_KEYS}
        problems = [
            f"{key}: references to config providers are resolved for connectors only; give it as the environment "
            f"variable {variable_name(key)}"
            for key, value in own.items()
            if "${" in value
        ]
        problems += client_problems("", own)
        fields = cls.fields_by_key()  # admin.listeners is none of the clients' for administration
        clients = {key: value for key, value in values.items() if key not in fields}
        for kind in ("producer", "consumer", "admin"):
            problems += client_problems(f"{kind}.", _below(f"{kind}.", clients))
        problems += [
            f"{store}.storage.cleanup.policy: internal topics are always compacted; remove it"
            for store in ("config", "offset", "status")
            if values.get(f"{store}.storage.cleanup.policy", "compact") != "compact"
        ]
        return problems

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        problems = []
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            problems.append("heartbeat.interval.ms: must be less than session.timeout.ms")
        if self.task_restart_backoff_max_ms < self.task_restart_backoff_ms:
            problems.append("task.restart.backoff.max.ms: must not be less than task.restart.backoff.ms")
        problems += [
            f"inter.worker.verification.algorithms: {name} is unknown; there are {', '.join(SIGNATURE_HASHES)}"
            for name in self.inter_worker_verification_algorithms
            if name not in SIGNATURE_HASHES
        ]
        if self.inter_worker_signature_algorithm not in self.inter_worker_verification_algorithms:
            problems.append("inter.worker.verification.algorithms: must contain inter.worker.signature.algorithm")
        if self.standalone and self.offset_storage_file_filename is None:
            problems.append("offset.storage.file.filename: must be set for a standalone worker")
        if self.standalone and self.exactly_once_source_support != "disabled":
            problems.append(
                "exactly.once.source.support: a standalone worker keeps offsets in a file, which is no part of a "
                "transaction; remove it"
            )
        if self.standalone_connector_files and not self.standalone:
            problems.append("standalone.connector.files: only a standalone worker takes connectors from files")
        problems += self.storage_problems()
        if problems:
            raise ValueError("\n  ".join(problems))
        return self

    @classmethod
    def load(
        cls,
        arguments: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        program: str | None = None,
    ) -> Self:
        """Return the settings of a command line: ``--config FILE``, ``--set``, ``--standalone`` and connector files.

        Args:
            arguments: the command line without the program's name; by default this process's.
            environment: environment variables; by default this process's.
            program: the name shown in help.

        Raises:
            ConfigurationError: lists everything that is wrong.
        """
        parser = argument_parser(cls, program)
        parser.description = "Runs Kafka Connect connectors."
        parser.add_argument("--standalone", action="store_true", help="run alone, with connectors from files")
        parser.add_argument(
            "connector", nargs="*", help="with --standalone: properties or JSON files with a connector each"
        )
        options = parser.parse_args(arguments)
        values, origins, hidden = written_settings(cls, options, environment)
        if options.standalone:
            values["standalone"], origins["standalone"] = "true", "--standalone"
        if options.connector:
            key = "standalone.connector.files"
            values[key], origins[key] = ",".join([*filter(None, [values.get(key)]), *options.connector]), "arguments"
        return validated(cls, values, origins, hidden)

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> Self:
        """Return the settings that were written as `raw`.

        Raises:
            ConfigurationError: lists everything that is wrong.
        """
        return validated(cls, raw, {})

    @property
    def raw(self) -> dict[str, str]:
        """Return the settings that were written, by key; `parse` makes the same of them."""
        fields = self.fields_by_key()
        written = {key: text for key, text in self.as_properties().items() if fields[key] in self.model_fields_set}
        return written | self._open

    @property
    def leads_in_transactions(self) -> bool:
        """Return whether this worker writes to the config topic in transactions when it leads."""
        return self.exactly_once_source_support != "disabled"

    @property
    def has_transactional_sources(self) -> bool:
        """Return whether source tasks of this worker write in transactions."""
        return self.exactly_once_source_support == "enabled"

    @property
    def write_timeout_s(self) -> float:
        """How long a record for an internal topic may be on its way, in seconds.

        At most half of a lease: so much of it a worker must have left that writes what only one may. Less where
        heartbeats are rare, as a lease has no more left before the next one than the two differ by.
        """
        lease_ms = min(self.session_timeout_ms, self.rebalance_timeout_ms)
        left_ms = max((lease_ms - self.heartbeat_interval_ms) * WRITE_SHARE, lease_ms * WRITE_SHARE_MIN)
        return min(lease_ms / 2, left_ms) / 1000

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the settings below a prefix such as ``key.converter.``, without it."""
        return _below(prefix, self._open)

    def client_config(self, kind: ClientKind, overrides: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return librdkafka's settings for a client.

        They are, the later winning: Connect's defaults, those of the worker's own clients (of which a connector's
        clients take all but ``client.id``), those below ``producer.``, ``consumer.`` or ``admin.``, the overrides.

        Args:
            kind: whose client it is.
            overrides: settings without the prefix ``producer.override.`` and the like, under Java's names or
                librdkafka's. `override_problems` tells whether a connector may have them.

        Raises:
            ClientSettingError: some setting has no counterpart in librdkafka.
        """
        return librdkafka_settings(self._client_settings(kind, overrides or {}), RULES)

    def override_problems(self, kind: ClientKind, overrides: Mapping[str, str]) -> list[str]:
        """Return which client settings a connector must not override on this worker, as sentences."""
        return override_problems(
            self.connector_client_config_override_policy,
            kind,
            overrides,
            allowlist=self.connector_client_config_override_allowlist,
        )

    def poll_records_max(self, overrides: Mapping[str, str] | None = None) -> int:
        """Return how many records a sink task is given at once: ``max.poll.records``, which librdkafka lacks.

        Raises:
            ClientSettingError: it is not a positive number.
        """
        text = self._client_settings("consumer", overrides or {}).get("max.poll.records")
        if text is not None and not (text.isdecimal() and int(text) > 0):
            raise ClientSettingError([Problem("max.poll.records", f"write a positive number, not {text!r}")])
        return DEFAULT_POLL_RECORDS_MAX if text is None else int(text)

    def client_tls(self, name: str) -> str | None:
        """Return a setting of TLS of the worker's own clients, which is its listeners' as well without others."""
        return self._open.get(name)

    @property
    def _open(self) -> dict[str, str]:
        return dict(self.model_extra or {})

    def _client_settings(self, kind: ClientKind, overrides: Mapping[str, str]) -> dict[str, str]:
        own = {key: value for key, value in self._open.items() if key in CLIENT_KEYS}
        if kind != "worker":
            own.pop("client.id", None)
        above = [self.with_prefix(f"{kind}.")] if kind != "worker" else []
        return layered({"bootstrap.servers": ",".join(self.bootstrap_servers)}, kind, [own, *above, overrides])


def _below(prefix: str, values: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
