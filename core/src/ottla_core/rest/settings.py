"""Settings of the REST API: where it listens, how other workers reach it, TLS (Kafka's RestServerConfig)."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ottla_core.config import SECRET, CommaSeparated, HostPort
from ottla_core.rest.access_settings import CERTIFICATE, RestAccessSettings

DEFAULT_HOST = "127.0.0.1"
"""Every client that reaches the REST API may do what the worker can, with its rights."""
DEFAULT_PORT = 8083
REST_EXTENSIONS = (
    "REST extensions are Java classes, which cannot be loaded here; in place of BasicAuthSecurityRestExtension set "
    "rest.authentication.methods=basic and rest.basic.users.location"
)
"""Why Kafka's setting rest.extension.classes is refused."""
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
CIPHER_SUITES: Final = ("ECDHE+AESGCM", "ECDHE+CHACHA20")
"""Of TLS 1.2, where nobody says otherwise: those with forward secrecy whose encryption authenticates, too."""
NO_PEM: Final = (
    "it is PEM; `openssl pkcs12 -in FILE.p12 -nodes -out FILE.pem` converts PKCS12, and `keytool -importkeystore "
    "-srckeystore FILE.jks -destkeystore FILE.p12 -deststoretype PKCS12` what only Java reads"
)
WILDCARD_HOSTS = ("", "0.0.0.0", "::")  # noqa: S104 - recognised, not bound here


class Listener(NamedTuple):
    """An address of the REST API; prints as its URL. An empty host stands for every interface."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return ``SCHEME://HOST:PORT``."""
        return f"{self.scheme}://{HostPort(self.host, self.port)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestTls:
    """What an HTTPS listener needs, and other workers to speak to it.

    Attributes:
        certificate: PEM file with the server's certificate chain.
        key: PEM file with its private key; may be the same file.
        key_password: password of the key.
        authorities: PEM file with the authorities whose certificates are trusted, of clients and of other workers.
        client_certificates: none, requested or required.
        protocols: of `PROTOCOLS`.
        cipher_suites: of TLS 1.2, in OpenSSL's names.
    """

    certificate: Path
    key: Path
    key_password: str | None = field(repr=False)
    authorities: Path | None
    client_certificates: str
    protocols: tuple[str, ...] = PROTOCOLS
    cipher_suites: tuple[str, ...] = CIPHER_SUITES


def parse_listener(text: str) -> Listener:
    """Return the listener of ``http://HOST:PORT`` or ``https://HOST:PORT``; the host may be empty.

    Raises:
        ValueError: the text is no such URL.
    """
    parts = urlsplit(text.strip())
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https") or parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        raise ValueError(f"write a listener as http://HOST:PORT or https://HOST:PORT, not {text!r}")
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"{text!r} has no valid port") from None
    if port is None:
        raise ValueError(f"{text!r} has no port; write it as http://HOST:PORT")
    return Listener(scheme, parts.hostname or "", port)


def _listeners(value: object) -> object:
    if not isinstance(value, str):
        return value
    listeners = tuple(parse_listener(text) for text in value.split(",") if text.strip())
    if not listeners:
        raise ValueError("at least one URL is needed, such as http://127.0.0.1:8083")
    return listeners


def _admin_listeners(value: object) -> object:
    return () if isinstance(value, str) and not value.strip() else _listeners(value)


AdminListeners = Annotated[tuple[Listener, ...] | None, BeforeValidator(_admin_listeners)]
Listeners = Annotated[tuple[Listener, ...], BeforeValidator(_listeners)]


class RestSettings(RestAccessSettings):
    """What the REST API can be told."""

    listeners: Listeners = Field(
        (Listener("http", DEFAULT_HOST, DEFAULT_PORT),),
        alias="listeners",
        description="URLs that the REST API listens on, separated by commas: http://HOST:PORT or https://HOST:PORT. "
        "No host means every interface; port 0 takes any free one. Who reaches it may do everything, unless "
        "rest.authentication.methods or listeners.https.ssl.client.auth is set; other workers reach this one by it.",
    )
    admin_listeners: AdminListeners = Field(
        None,
        alias="admin.listeners",
        description="URLs that only /admin (log levels) and /health are served at, separated by commas; https as "
        "listeners.https says. /admin is served there alone then, and nowhere if this is empty. By default listeners "
        "serve both; those serve /health in any case.",
    )
    rest_advertised_host_name: str | None = Field(
        None,
        alias="rest.advertised.host.name",
        description="Host under which other workers reach this one; by default the listener's or this machine's.",
    )
    rest_advertised_port: int | None = Field(
        None,
        alias="rest.advertised.port",
        ge=1,
        le=65535,
        description="Port under which other workers reach this one; by default the listener's.",
    )
    rest_advertised_listener: Literal["http", "https"] | None = Field(
        None,
        alias="rest.advertised.listener",
        description="Whether other workers use http or https; by default that of the first listener.",
    )
    access_control_allow_origin: str = Field(
        "",
        alias="access.control.allow.origin",
        description="Origin whose pages may call the REST API, or *; by default only those of the API itself.",
    )
    access_control_allow_methods: CommaSeparated = Field(
        (),
        alias="access.control.allow.methods",
        description="Methods that pages of other origins may use, separated by commas; by default GET, POST, HEAD.",
    )
    https_keystore_location: Path | None = Field(
        None,
        alias="listeners.https.ssl.keystore.location",
        description="PEM file with the private key and certificate chain of https listeners; read again when it "
        "changes.",
    )
    https_keystore_type: str = Field(
        "PEM",
        alias="listeners.https.ssl.keystore.type",
        description="Type of listeners.https.ssl.keystore.location: PEM.",
    )
    https_key_password: Annotated[str | None, SECRET] = Field(
        None, alias="listeners.https.ssl.key.password", description="Password of the https listeners' private key."
    )
    https_truststore_location: Path | None = Field(
        None,
        alias="listeners.https.ssl.truststore.location",
        description="PEM file with the authorities whose certificates clients and other workers may show.",
    )
    https_truststore_type: str = Field(
        "PEM",
        alias="listeners.https.ssl.truststore.type",
        description="Type of listeners.https.ssl.truststore.location: PEM.",
    )
    https_client_auth: Literal["none", "requested", "required"] = Field(
        "none",
        alias="listeners.https.ssl.client.auth",
        description="Whether https clients need a certificate: none, requested or required.",
    )

    https_protocols: CommaSeparated = Field(
        PROTOCOLS,
        alias="listeners.https.ssl.enabled.protocols",
        description="Versions of TLS of https listeners, separated by commas.",
    )
    https_cipher_suites: CommaSeparated = Field(
        CIPHER_SUITES,
        alias="listeners.https.ssl.cipher.suites",
        description="Cipher suites of TLS 1.2 of https listeners in OpenSSL's names, separated by commas.",
    )

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """Return the origins whose pages may call the REST API."""
        origins = self.access_control_allow_origin.split(",")
        return tuple(origin.strip() for origin in origins if origin.strip())

    @field_validator("https_keystore_type", "https_truststore_type")
    @classmethod
    def _check_type(cls, value: str) -> str:
        if value.upper() != "PEM":
            raise ValueError(NO_PEM)
        return value

    @field_validator("https_protocols")
    @classmethod
    def _check_protocols(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not set(value) <= set(PROTOCOLS):
            raise ValueError(f"it is some of {', '.join(PROTOCOLS)}")
        return value

    def client_tls(self, _name: str) -> str | None:
        """Return a setting of the worker's own clients; None where they have none of their own."""
        return None

    @model_validator(mode="after")
    def _check_listeners(self) -> Self:
        schemes = {listener.scheme for listener in self.listeners}
        tls = self.rest_tls
        if "https" in self._schemes and tls is None:
            raise ValueError("listeners.https.ssl.keystore.location: must be set for an https listener")
        if self.rest_advertised_listener is not None and self.rest_advertised_listener not in schemes:
            raise ValueError(f"rest.advertised.listener: there is no {self.rest_advertised_listener} listener")
        trusts_clients = tls is not None and tls.authorities is not None
        if self.https_client_auth == "required" and not trusts_clients:
            raise ValueError("listeners.https.ssl.truststore.location: must be set to require clients' certificates")
        if CERTIFICATE in self.rest_authentication_methods:
            if "https" not in schemes or self.https_client_auth == "none":
                raise ValueError(
                    "listeners.https.ssl.client.auth: must be requested or required, on an https listener, for "
                    "rest.authentication.methods=certificate"
                )
            if not trusts_clients:
                raise ValueError(
                    "listeners.https.ssl.truststore.location: must name the authorities of users' certificates"
                )
        return self

    @property
    def _schemes(self) -> set[str]:
        return {listener.scheme for listener in (*self.listeners, *(self.admin_listeners or ()))}

    @property
    def rest_tls(self) -> RestTls | None:
        """Return how https listeners prove who they are; None if it is not configured.

        Without a key store of theirs the worker's own clients' stores are taken, as in Kafka's `SSLUtils`.
        """
        keystore, truststore = self.https_keystore_location, self.https_truststore_location
        password = self.https_key_password
        if keystore is None and "https" in self._schemes:
            locations = (self.client_tls(f"ssl.{store}.location") for store in ("keystore", "truststore"))
            keystore, others = (Path(each) if each else None for each in locations)
            truststore, password = truststore or others, password or self.client_tls("ssl.key.password")
        if keystore is None:
            return None
        return RestTls(
            certificate=keystore,
            key=keystore,
            key_password=password,
            authorities=truststore,
            client_certificates=self.https_client_auth,
            protocols=self.https_protocols,
            cipher_suites=self.https_cipher_suites,
        )

    @property
    def advertised_listener(self) -> Listener:
        """Return the listener that other workers use, as it was configured."""
        scheme = self.rest_advertised_listener or self.listeners[0].scheme
        return next(listener for listener in self.listeners if listener.scheme == scheme)

    def advertised_url(self, bound_port: int, host_name: str) -> str:
        """Return the URL under which other workers reach this one.

        Args:
            bound_port: the port to which `advertised_listener` is bound.
            host_name: this machine's name, used if neither a host is configured nor the listener has one.
        """
        listener = self.advertised_listener
        listening = host_name if listener.host in WILDCARD_HOSTS else listener.host
        host = self.rest_advertised_host_name or listening
        return str(Listener(listener.scheme, host, self.rest_advertised_port or bound_port))
