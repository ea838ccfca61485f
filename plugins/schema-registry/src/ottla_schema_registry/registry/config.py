"""Settings of all converters here: how the registry is reached, and how schemas are registered."""

from collections.abc import Iterable
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, SecretStr

from ottla_schema_registry.subject_names import SubjectNameStrategy
from ottla_sdk import Importance, PluginConfig, Problem, setting
from ottla_sdk.config import CommaSeparated

_CONNECTION = "Connection"
_AUTHENTICATION = "Authentication"
_SCHEMAS = "Schemas"

Strategy = Annotated[SubjectNameStrategy, BeforeValidator(SubjectNameStrategy.parse)]


class RegistryConfig(PluginConfig):
    """Settings of all converters here; names and defaults are Confluent's where there are such."""

    urls: CommaSeparated = setting(
        "schema.registry.url",
        doc="Addresses of the registry; another is tried when one cannot be reached.",
        importance=Importance.HIGH,
        group=_CONNECTION,
        min_length=1,
    )
    connect_timeout_ms: int = setting(
        "http.connect.timeout.ms", 60_000, doc="How long connecting may take, in ms.", group=_CONNECTION, ge=1
    )
    read_timeout_ms: int = setting(
        "http.read.timeout.ms", 60_000, doc="How long an answer may take, in ms.", group=_CONNECTION, ge=1
    )
    retries_max: int = setting(
        "max.retries",
        3,
        doc="How often a request is repeated when no address answers, or with an error that may pass. Then the "
        "runtime takes over, by `errors.retry.timeout`.",
        group=_CONNECTION,
        ge=0,
        le=100,
    )
    retry_wait_ms: int = setting(
        "retries.wait.ms", 1000, doc="Longest wait before the first repetition, in ms.", group=_CONNECTION, ge=0
    )
    retry_wait_max_ms: int = setting(
        "retries.max.wait.ms", 20_000, doc="Longest wait before any repetition, in ms.", group=_CONNECTION, ge=0
    )
    proxy: str | None = setting("proxy", None, doc="Address of an HTTP proxy.", group=_CONNECTION)
    ca_location: str | None = setting(
        "schema.registry.ssl.ca.location",
        None,
        doc="File of certificates, in PEM form, that the registry's must come from; otherwise those of certifi.",
        group=_CONNECTION,
    )
    certificate_location: str | None = setting(
        "schema.registry.ssl.certificate.location",
        None,
        doc="File of the certificate that the converter shows, in PEM form.",
        group=_CONNECTION,
    )
    key_location: str | None = setting(
        "schema.registry.ssl.key.location", None, doc="File of its private key, in PEM form.", group=_CONNECTION
    )
    key_password: SecretStr | None = setting(
        "schema.registry.ssl.key.password", None, doc="Password of the private key.", group=_CONNECTION
    )
    endpoint_identification: Literal["https", ""] = setting(
        "schema.registry.ssl.endpoint.identification.algorithm",
        "https",
        doc="`https`: the certificate must be for the registry's host name. Empty: for any.",
        group=_CONNECTION,
    )
    basic_auth_source: Literal["URL", "USER_INFO"] = setting(
        "basic.auth.credentials.source",
        "URL",
        doc="Where user and password are: in the address (`https://user:password@host`), or in "
        "`basic.auth.user.info`.",
        group=_AUTHENTICATION,
    )
    basic_auth_user_info: SecretStr | None = setting(
        "basic.auth.user.info", None, doc="User and password, as `user:password`.", group=_AUTHENTICATION
    )
    registry_user_info: SecretStr | None = setting(
        "schema.registry.basic.auth.user.info", None, doc="Another name of the same.", group=_AUTHENTICATION
    )
    bearer_source: Literal["STATIC_TOKEN"] | None = setting(
        "bearer.auth.credentials.source",
        None,
        doc="STATIC_TOKEN: `bearer.auth.token` holds a token.",
        group=_AUTHENTICATION,
    )
    bearer_token: SecretStr | None = setting(
        "bearer.auth.token", None, doc="A token that is sent with each request.", group=_AUTHENTICATION
    )
    auto_register: bool = setting(
        "auto.register.schemas",
        True,
        doc="Whether new schemas are registered. Otherwise they must be there.",
        importance=Importance.HIGH,
        group=_SCHEMAS,
    )
    use_latest_version: bool = setting(
        "use.latest.version",
        False,
        doc="Whether values are written by the subject's latest schema, whatever schema they have. Needs "
        "`auto.register.schemas=false`.",
        group=_SCHEMAS,
    )
    latest_ttl_s: int = setting(
        "latest.cache.ttl.sec",
        -1,
        doc="How long, in seconds, the latest schema is taken for it; -1: for ever.",
        group=_SCHEMAS,
        ge=-1,
    )
    normalize: bool = setting(
        "normalize.schemas",
        False,
        doc="Whether the registry shall see no difference in what does not matter, such as the order of properties.",
        group=_SCHEMAS,
    )
    key_strategy: Strategy = setting(
        "key.subject.name.strategy",
        SubjectNameStrategy.TOPIC,
        doc="What names the subject of keys; the Java classes' names are known too.",
        group=_SCHEMAS,
    )
    value_strategy: Strategy = setting(
        "value.subject.name.strategy",
        SubjectNameStrategy.TOPIC,
        doc="What names the subject of values; the Java classes' names are known too.",
        group=_SCHEMAS,
    )
    schemas_cache_size: int = setting(
        "schemas.cache.config", 1000, doc="How many schemas the converter remembers, in each direction.",
        group=_SCHEMAS, ge=1,
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        """Look at the settings together."""
        for url in self.urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                shown = f"{parts.scheme}://{parts.hostname or ''}"
                yield Problem("schema.registry.url", f"{shown} is no address such as http://localhost:8081")
        if self.basic_auth_source == "USER_INFO":
            found = self.user_info
            if found is None or ":" not in found.get_secret_value():
                yield Problem("basic.auth.user.info", "must be set, as user:password")
        if self.bearer_source is not None and self.bearer_token is None:
            yield Problem("bearer.auth.token", "must be set")
        if self.use_latest_version and self.auto_register:
            yield Problem("use.latest.version", "needs auto.register.schemas=false")
        if (self.key_location is None) != (self.certificate_location is None):
            yield Problem("schema.registry.ssl.key.location", "a certificate and its key go together")

    @property
    def user_info(self) -> SecretStr | None:
        """User and password, whichever setting they are in."""
        return self.basic_auth_user_info or self.registry_user_info
