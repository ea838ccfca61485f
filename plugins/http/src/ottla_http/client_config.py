"""The settings that the source and the sink have in common: where to, as whom, and how patiently."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from ottla_http.statuses import Statuses
from ottla_sdk import Importance, PluginConfig, Problem, Width, setting

_CONNECTION = "Connection"
_AUTHENTICATION = "Authentication"
_RETRIES = "Retries"
_FORBIDDEN_HEADERS = frozenset({"content-length", "host", "transfer-encoding", "connection"})
_TOKEN_CHARACTERS = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "basic": ("http.auth.username", "http.auth.password"),
    "bearer": ("http.auth.token",),
    "api-key": ("http.auth.api.key.name", "http.auth.api.key.value"),
    "oauth2": ("http.auth.oauth2.token.url", "http.auth.oauth2.client.id", "http.auth.oauth2.client.secret"),
}


class HttpClientConfig(PluginConfig):
    """Where to, as whom, and how patiently."""

    url: str = setting(
        "http.url",
        doc="The URL, with https:// or http://.",
        importance=Importance.HIGH,
        width=Width.LONG,
        min_length=1,
    )
    headers: str = setting(
        "http.headers",
        "",
        doc="Headers of every request: `Name: value`, several with | between them. Use http.auth for secrets.",
        width=Width.LONG,
    )
    auth: Literal["none", "basic", "bearer", "api-key", "oauth2"] = setting(
        "http.auth",
        "none",
        doc="How the connector authenticates. basic: user name and password. bearer: a token. api-key: a header or a "
        "query parameter. oauth2: a token of an OAuth 2 server, by the client credentials grant.",
        importance=Importance.HIGH,
        group=_AUTHENTICATION,
    )
    username: str = setting("http.auth.username", "", doc="User name, for basic.", group=_AUTHENTICATION)
    password: SecretStr | None = setting(
        "http.auth.password", None, doc="Password, for basic.", group=_AUTHENTICATION
    )
    token: SecretStr | None = setting("http.auth.token", None, doc="Token, for bearer.", group=_AUTHENTICATION)
    api_key_name: str = setting(
        "http.auth.api.key.name", "", doc="Name of the header or query parameter, for api-key.", group=_AUTHENTICATION
    )
    api_key_value: SecretStr | None = setting(
        "http.auth.api.key.value", None, doc="Its value.", group=_AUTHENTICATION
    )
    api_key_in: Literal["header", "query"] = setting(
        "http.auth.api.key.in", "header", doc="Where it is sent.", group=_AUTHENTICATION
    )
    token_url: str = setting(
        "http.auth.oauth2.token.url", "", doc="Where tokens are to be had, for oauth2.", group=_AUTHENTICATION
    )
    client_id: str = setting("http.auth.oauth2.client.id", "", doc="Client id, for oauth2.", group=_AUTHENTICATION)
    client_secret: SecretStr | None = setting(
        "http.auth.oauth2.client.secret", None, doc="Client secret, for oauth2.", group=_AUTHENTICATION
    )
    scopes: str = setting(
        "http.auth.oauth2.scopes", "", doc="Scopes to ask for, separated by spaces.", group=_AUTHENTICATION
    )
    client_secret_in: Literal["header", "body"] = setting(
        "http.auth.oauth2.client.secret.in",
        "header",
        doc="How the token server is shown the secret. header: HTTP basic authentication. body: in the form.",
        group=_AUTHENTICATION,
    )
    tls_ca: Path | None = setting(
        "http.tls.ca",
        None,
        doc="PEM file with the authorities to trust instead of the usual ones.",
        group=_CONNECTION,
    )
    tls_verify: bool = setting(
        "http.tls.verify",
        True,
        doc="Whether to check the server's certificate. Without, anybody on the way can read and change everything.",
        group=_CONNECTION,
        importance=Importance.LOW,
    )
    tls_certificate: Path | None = setting(
        "http.tls.certificate", None, doc="PEM file with the client's certificate.", group=_CONNECTION
    )
    tls_key: Path | None = setting(
        "http.tls.key", None, doc="PEM file with its key, if it is not in the same file.", group=_CONNECTION
    )
    tls_key_password: SecretStr | None = setting(
        "http.tls.key.password", None, doc="Password of that key.", group=_CONNECTION
    )
    proxy: str = setting(
        "http.proxy",
        "",
        doc="URL of a proxy. The variables HTTP_PROXY and HTTPS_PROXY are not looked at.",
        group=_CONNECTION,
    )
    connect_timeout_ms: int = setting(
        "http.connect.timeout.ms",
        5_000,
        doc="How long connecting may take, in ms.",
        group=_CONNECTION,
        ge=1,
        le=600_000,
    )
    request_timeout_ms: int = setting(
        "http.request.timeout.ms",
        30_000,
        doc="How long the server may be silent while it is sent a request or answers it, in ms.",
        group=_CONNECTION,
        ge=1,
        le=3_600_000,
    )
    connections_max: int = setting(
        "http.connections.max", 4, doc="Most connections of a task.", group=_CONNECTION, ge=1, le=1_000
    )
    retriable_statuses: str = setting(
        "http.retry.statuses",
        "408,425,429,500-599",
        doc="The statuses after which a request is repeated, as are those without an answer: numbers and ranges.",
        group=_RETRIES,
    )
    retry_attempts_max: int = setting(
        "http.retry.attempts.max",
        0,
        doc="How often a request is sent at most; 0: until it succeeds. Then the task fails, and is started anew "
        "some times; no record is left out because a service does not answer, or with one of http.retry.statuses.",
        group=_RETRIES,
        ge=0,
        le=1_000_000,
    )
    retry_backoff_ms: int = setting(
        "http.retry.backoff.ms",
        500,
        doc="How long to wait before a request is repeated, in ms; twice as long each time. A server's Retry-After "
        "counts instead if it is longer.",
        group=_RETRIES,
        ge=1,
        le=3_600_000,
    )
    retry_backoff_max_ms: int = setting(
        "http.retry.backoff.max.ms",
        60_000,
        doc="How long at most, in ms; for Retry-After too.",
        group=_RETRIES,
        ge=1,
        le=86_400_000,
    )

    @property
    def retriable(self) -> Statuses:
        """The statuses after which a request is repeated."""
        return Statuses.parse(self.retriable_statuses)

    @property
    def header_items(self) -> list[tuple[str, str]]:
        """The headers of every request."""
        return list(_headers(self.headers))

    @property
    def uses_tls(self) -> bool:
        """Whether anything is asked through TLS."""
        return any(url.startswith("https://") for url in (self.url, self.token_url, self.proxy))

    def check(self) -> Iterable[Problem]:
        """Return what is wrong with the settings taken together."""
        values = {info.alias: getattr(self, name) for name, info in type(self).model_fields.items() if info.alias}
        for key in _NEEDED[self.auth]:
            if not values[key] or (isinstance(values[key], SecretStr) and not values[key].get_secret_value()):
                yield Problem(key, f"must be set for http.auth {self.auth}")
        try:
            self.retriable  # noqa: B018
        except ValueError as error:
            yield Problem("http.retry.statuses", str(error))
        if problem := _headers_problem(self.headers):
            yield Problem("http.headers", problem)
        if self.retry_backoff_max_ms < self.retry_backoff_ms:
            yield Problem("http.retry.backoff.max.ms", "must not be less than http.retry.backoff.ms")
        if self.tls_key and not self.tls_certificate:
            yield Problem("http.tls.certificate", "must be set where http.tls.key is")
        for key, url in (("http.auth.oauth2.token.url", self.token_url), ("http.proxy", self.proxy)):
            if url and not url.startswith(("http://", "https://")):
                yield Problem(key, "must begin with http:// or https://")


def _headers(text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, map(str.strip, text.split("|"))):
        name, _, value = part.partition(":")
        yield name.strip(), value.strip()


def _headers_problem(text: str) -> str | None:
    for part in filter(None, map(str.strip, text.split("|"))):
        name, separator, value = (piece.strip() for piece in part.partition(":"))
        if not separator or not name or not set(name.lower()) <= _TOKEN_CHARACTERS:
            return "headers are written as `Name: value`, with | between several"
        if name.lower() in _FORBIDDEN_HEADERS:
            return f"{name} is set by the connector"
        if not value.isascii() or not value.isprintable():
            return f"the value of {name} has characters that cannot be in a header"
    return None
