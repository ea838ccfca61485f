"""Configuration of a service: one typed model, read from a properties file, the environment and the command line.

A service declares a `ServiceConfig` subclass whose fields carry Kafka's key as their alias (`log.retention.hours`),
a default and a sentence with the unit. Sources, the later winning: the file given by `--config`, environment
variables (`OTTLA_LOG_RETENTION_HOURS`) and files that they name (`OTTLA_ETCD_PASSWORD_FILE`), `--set key=value`.
Unknown keys and bad values are refused together, so that one start shows everything that is wrong.
"""

import argparse
import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ottla_core.environment_settings import Keys, environment_settings
from ottla_core.errors import ConfigurationError
from ottla_core.properties_file import read_properties
from ottla_core.rpc_identity import NAME_PATTERN, check_pattern


class SecretMark:
    """Marks the type of a field whose value is shown to nobody; see `ServiceConfig.is_secret`."""


SECRET: Final = SecretMark()


def _split_list(value: object) -> object:
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


class HostPort(NamedTuple):
    """Where to listen or connect; prints as it is written in a configuration."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return ``HOST:PORT``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> HostPort:
    """Return host and port of `HOST:PORT` or `[IPV6]:PORT`.

    Raises:
        ValueError: the text is no address.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"write an address as HOST:PORT, not {text!r}")
    return HostPort(host, int(port))


Address = Annotated[HostPort, BeforeValidator(lambda v: parse_address(v) if isinstance(v, str) else v)]
CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_split_list)]


def _check_headers(headers: tuple[str, ...]) -> tuple[str, ...]:
    for number, header in enumerate(headers, start=1):
        name, equals, _ = header.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"header {number} is not NAME=VALUE")  # without its text, which may be a secret
    return headers


OtlpHeaders = Annotated[CommaSeparated, AfterValidator(_check_headers)]


class DescribedKey(NamedTuple):
    """One line of a service's help; `default` says also whether there is none."""

    key: str
    default: str
    description: str


class ServiceConfig(BaseModel):
    """Base of every service's settings: immutable, keyed by Kafka's names, closed to unknown keys.

    A model may leave some prefixes open (`open_prefixes`): keys that begin with one reach it as they are, beside its
    fields, for which it must allow extra values. `open_file_keys` are endings of such keys that name files by
    themselves, so that their variables, which end in _FILE, name no file that has the value.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_alias=True,
        validate_by_name=True,
        hide_input_in_errors=True,  # Pydantic's own message has all settings, secrets among them
    )
    open_prefixes: ClassVar[tuple[str, ...]] = ()
    open_file_keys: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def known_keys(cls) -> frozenset[str]:
        """Return every key that is accepted by its full name."""
        return frozenset(cls.fields_by_key())

    @classmethod
    def accepts(cls, key: str) -> bool:
        """Return whether a key is known or begins with an open prefix."""
        return key in cls.known_keys() or key.startswith(cls.open_prefixes)

    @classmethod
    def is_secret(cls, key: str) -> bool:
        """Return whether a setting's value is shown to nobody: not in messages, logs, answers, or by `repr`.

        A field is marked by its type, `Annotated[str, SECRET]`. A model with open prefixes knows its own besides.
        """
        return key in cls.secret_keys()

    @classmethod
    def secret_keys(cls) -> frozenset[str]:
        """Return the keys of the fields that are marked as secrets."""
        return frozenset(info.alias or name for name, info in cls.model_fields.items() if SECRET in info.metadata)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Leave out secrets, as what is printed may end in a log."""
        keys = {name: key for key, name in self.fields_by_key().items()}
        for name, value in super().__repr_args__():
            if name is None or not self.is_secret(keys.get(name, name)):
                yield name, value

    @classmethod
    def why_refused(cls, key: str) -> str:
        """Return why a key is not accepted, for people, with the known key that is most like it."""
        similar = difflib.get_close_matches(key, cls.known_keys(), n=1)
        return f"unknown setting; did you mean {similar[0]}?" if similar else "unknown setting"

    @classmethod
    def problems_of(cls, values: Mapping[str, str]) -> list[str]:
        """Return what is wrong with the settings as they were written that no field can tell, as sentences."""
        return []

    @classmethod
    def fields_by_key(cls) -> Mapping[str, str]:
        """Return the field name of every key."""
        return {info.alias or name: name for name, info in cls.model_fields.items()}

    @classmethod
    def described_keys(cls) -> list[DescribedKey]:
        """Return every key with its default and what it means, for help."""
        return [
            DescribedKey(
                info.alias or name,
                "required" if info.is_required() else f"default {_format(info.get_default()) or 'none'}",
                info.description or "",
            )
            for name, info in cls.model_fields.items()
            if not info.exclude
        ]

    def as_properties(self) -> dict[str, str]:
        """Return every setting that has a value, written as in a properties file."""
        fields = type(self).model_fields
        return {
            key: _format(value)
            for key, name in self.fields_by_key().items()
            if name in fields and (value := getattr(self, name)) is not None
        }


VIEW_AGE_MAX_MS_MIN = 3000


class EtcdSettings(ServiceConfig):
    """How a service reaches etcd, and its place there."""

    etcd_endpoints: CommaSeparated = Field(
        ("http://127.0.0.1:2379",),
        alias="etcd.endpoints",
        description="URLs of the etcd members, separated by commas; https:// turns TLS on.",
    )
    etcd_tls_ca: Path | None = Field(
        None, alias="etcd.tls.ca", description="PEM file with the authority that signed etcd's certificate."
    )
    etcd_tls_certificate: Path | None = Field(
        None, alias="etcd.tls.certificate", description="PEM file with this client's certificate chain."
    )
    etcd_tls_key: Path | None = Field(
        None, alias="etcd.tls.key", description="PEM file with the private key of etcd.tls.certificate."
    )
    etcd_username: str | None = Field(None, alias="etcd.username", description="User name for etcd.")
    etcd_password: Annotated[str | None, SECRET] = Field(
        None, alias="etcd.password", description="Password of etcd.username."
    )
    cluster_name: str = Field(
        "ottla",
        alias="cluster.name",
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Name of the cluster; its state in etcd stands below /ottla/<name>/.",
    )
    member_lease_ttl_ms: int = Field(
        6000,
        alias="member.lease.ttl.ms",
        ge=1000,
        description="Milliseconds after which a silent process loses its place in the cluster. At least 1.5 times "
        "etcd's election timeout.",
    )

    @property
    def view_age_max_ms(self) -> int:
        """Milliseconds after which a view of the cluster that cannot be confirmed counts as out of date.

        The lease's own time, for the same reason; a shorter one than `VIEW_AGE_MAX_MS_MIN` would be over before a
        watch that stalls is replaced.
        """
        return max(self.member_lease_ttl_ms, VIEW_AGE_MAX_MS_MIN)


class MetricsSettings(ServiceConfig):
    """How a process shows its metrics."""

    metrics_listener: Address | None = Field(
        None, alias="metrics.listener", description="HOST:PORT of the Prometheus endpoint; none by default."
    )

    metrics_otlp_endpoint: str | None = Field(
        None,
        alias="metrics.otlp.endpoint",
        pattern=r"^https?://[^/\s@]+(/\S*)?$",
        description="URL to which metrics are pushed by OTLP (HTTP, protobuf), such as http://collector:4318; "
        "/v1/metrics is added where it has no path. None by default.",
    )
    metrics_otlp_headers: Annotated[OtlpHeaders, SECRET] = Field(
        (),
        alias="metrics.otlp.headers",
        description="Headers of these pushes, as NAME=VALUE separated by commas, such as a token.",
    )
    metrics_otlp_interval_ms: int = Field(
        60_000, alias="metrics.otlp.interval.ms", ge=100, description="Milliseconds between two pushes."
    )

    @property
    def shows_metrics(self) -> bool:
        """Whether anybody is to see metrics."""
        return self.metrics_listener is not None or self.metrics_otlp_endpoint is not None

    @property
    def otlp_headers(self) -> Mapping[str, str]:
        """The headers of pushes, by name."""
        return {
            name.strip(): value.strip()
            for name, _, value in (each.partition("=") for each in self.metrics_otlp_headers)
        }


class ClusterProcessConfig(MetricsSettings, EtcdSettings):
    """What every process that joins a cluster can be told."""

    node_id: int = Field(
        alias="node.id", ge=0, le=2**31 - 1, description="This process's id, unique among those of its kind."
    )
    rpc_listener: Address = Field(
        HostPort("127.0.0.1", 0),
        alias="rpc.listener",
        description="HOST:PORT of the gRPC server, which also answers health checks; port 0 takes any free one.",
    )
    rpc_advertised_listener: Address | None = Field(
        None,
        alias="rpc.advertised.listener",
        description="HOST:PORT at which other processes reach the gRPC server; by default where it listens.",
    )
    rpc_tls_ca: Path | None = Field(
        None,
        alias="rpc.tls.ca",
        description="PEM file with the authorities that sign certificates of this cluster's processes. With it, "
        "rpc.tls.certificate and rpc.tls.key, processes accept each other only with certificates; none by default.",
    )
    rpc_tls_certificate: Path | None = Field(
        None,
        alias="rpc.tls.certificate",
        description="PEM file with this process's certificate chain, read again when it changes.",
    )
    rpc_tls_key: Path | None = Field(
        None, alias="rpc.tls.key", description="PEM file with the private key of rpc.tls.certificate."
    )
    rpc_tls_name: Annotated[str, AfterValidator(check_pattern)] = Field(
        NAME_PATTERN,
        alias="rpc.tls.name",
        description="How certificates name a process, as a DNS name among the subject alternative names; {role} is "
        "broker, controller, group-coordinator or admin, {id} its node.id, {cluster} cluster.name. The same for all.",
    )
    log_level: str = Field(
        "info",
        alias="log.level",
        pattern="^(debug|info|warning|error)$",
        description="Least severe level that is logged: debug, info, warning or error.",
    )

    def rpc_address(self, bound_port: int) -> str:
        """Return where other processes reach the gRPC server, which is bound to `bound_port`."""
        return str(self.rpc_advertised_listener or HostPort(self.rpc_listener.host, bound_port))

    @model_validator(mode="after")
    def _check_rpc_tls(self) -> Self:
        given = [self.rpc_tls_ca, self.rpc_tls_certificate, self.rpc_tls_key]
        if any(given) and not all(given):
            raise ValueError("rpc.tls.ca, rpc.tls.certificate and rpc.tls.key must be set together")
        return self


Model = TypeVar("Model", bound=ServiceConfig)


def load_config(
    model: type[Model],
    arguments: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    program: str | None = None,
) -> Model:
    """Read a service's settings from its command line, the environment and its file.

    Args:
        model: the settings' model.
        arguments: the command line without the program's name; by default this process's.
        environment: environment variables; by default this process's.
        program: the name shown in help.

    Raises:
        ConfigurationError: lists every unknown key and bad value with where it came from.
    """
    options = argument_parser(model, program).parse_args(arguments)
    written = written_settings(model, options, environment)
    return validated(model, written.values, written.origins, written.hidden)


class WrittenSettings(NamedTuple):
    """Settings as they were written, and where each was found, by key.

    The values of `hidden` are shown to nobody.
    """

    values: dict[str, str]
    origins: dict[str, str]
    hidden: frozenset[str]


def written_settings(
    model: type[ServiceConfig], options: argparse.Namespace, environment: Mapping[str, str] | None = None
) -> WrittenSettings:
    """Collect what file, environment and command line say; `options` come from `argument_parser`.

    Raises:
        ConfigurationError: a file cannot be read, or something is no assignment.
    """
    values: dict[str, str] = {}
    origins: dict[str, str] = {}

    def take(key: str, value: str, origin: str) -> None:
        values[key], origins[key] = value, origin

    if options.config is not None:
        for key, value in read_properties(options.config).items():
            take(key, value, str(options.config))
    keys = Keys(model.known_keys(), model.open_prefixes, model.open_file_keys)
    found = environment_settings(keys, os.environ if environment is None else environment)
    for setting in found:
        take(setting.key, setting.value, setting.origin)
    for assignment in options.set:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigurationError(f"--set {assignment}: write it as key=value")
        take(key.strip(), value.strip(), "--set")
    return WrittenSettings(values, origins, frozenset(setting.key for setting in found if setting.is_from_file))


def validated(
    model: type[Model],
    values: Mapping[str, str],
    origins: Mapping[str, str],
    hidden: frozenset[str] = frozenset(),
) -> Model:
    """Return the settings that were written, or everything that is wrong with them.

    Args:
        model: the settings' model.
        values: the settings by key.
        origins: where they were found, by key; may be empty.
        hidden: keys whose values no message has, beside the model's secrets.

    Raises:
        ConfigurationError: lists every unknown key and bad value with where it came from.
    """
    config, problems = checked(model, values, origins, hidden)
    if config is None or problems:
        raise ConfigurationError("bad configuration:\n  " + "\n  ".join(problems))
    return config


def checked(
    model: type[Model],
    values: Mapping[str, str],
    origins: Mapping[str, str],
    hidden: frozenset[str] = frozenset(),
) -> tuple[Model | None, list[str]]:
    """Return the settings that were written, if each of them can be read, and a sentence for all that is wrong.

    Arguments are those of `validated`.
    """
    known = model.fields_by_key()
    problems = [f"{key}: {model.why_refused(key)}{_origin(key, origins)}" for key in values if not model.accepts(key)]
    problems += model.problems_of(values)
    accepted = {known.get(key, key): value for key, value in values.items() if model.accepts(key)}
    try:
        return model.model_validate(accepted), problems
    except ValidationError as error:
        aliases = {name: key for key, name in known.items()}
        secrets = hidden | {key for key in values if model.is_secret(key)}
        problems += [_describe(problem, aliases, origins, secrets) for problem in error.errors()]
        return None, problems


def argument_parser(model: type[ServiceConfig], program: str | None = None) -> argparse.ArgumentParser:
    """Return a parser that knows ``--config`` and ``--set``, with every setting in its help."""
    settings = "\n".join(
        f"  {described.key} ({described.default})\n      {described.description}"
        for described in model.described_keys()
    )
    parser = argparse.ArgumentParser(
        prog=program,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="settings, in the file, as OTTLA_... variables, in files that OTTLA_..._FILE variables name, or by "
        f"--set:\n{settings}",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="properties file with key=value lines")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="one setting; may be repeated"
    )
    return parser


RAISED_BY_US = "Value error, "
"""What Pydantic puts before the messages of validators."""
_IN_WORDS = {
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_parsing": "write a number",
    "bool_parsing": "write true or false",
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "less_than": "must be less than {lt}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}
"""By type of a problem that Pydantic finds: what to do about it."""


def _origin(key: str, origins: Mapping[str, str]) -> str:
    return f" [{origins[key]}]" if key in origins else ""


def _describe(problem: Any, aliases: Mapping[str, str], origins: Mapping[str, str], hidden: frozenset[str]) -> str:
    name = str(problem["loc"][0]) if problem["loc"] else ""
    key = aliases.get(name, name)
    if problem["type"] == "missing":
        return f"{key}: must be set"
    reason = _IN_WORDS.get(problem["type"], str(problem["msg"])).format(**problem.get("ctx", {}))
    reason = reason.removeprefix(RAISED_BY_US)
    if isinstance(problem["input"], dict):
        return reason  # of several settings together, which it names itself
    if key in hidden:
        return f"{key}: {reason}{_origin(key, origins)}"
    return f"{key}: {reason} (got {problem['input']!r}){_origin(key, origins)}" if key else reason


def _format(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return ",".join(str(item) for item in value)
    return "" if value is None else str(value)
