"""The TLS settings of one listener, under Kafka's names. Pure.

A setting of a listener, ``listener.name.<name in lower case>.ssl.…``, comes before the broker's own ``ssl.…``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ottla_core.errors import ConfigurationError
from ottla_core.principal_mapping import MappingRule, parse_mapping_rules

PREFIX: Final = "ssl."
LISTENER_PREFIX: Final = "listener.name."
ENDPOINT_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")


PEM_LINE_LENGTH: Final = 64
_PEM_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class ClientAuthentication(StrEnum):
    """Whether clients show a certificate of their own."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


DESCRIPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "ssl.keystore.type": ("PEM", "PEM, or PKCS12 for a file with certificate and key."),
    "ssl.keystore.location": (
        "none",
        "File with the certificate chain and the private key; read again when it changes.",
    ),
    "ssl.keystore.password": ("none", "Password of a PKCS12 file."),
    "ssl.keystore.certificate.chain": ("none", "The certificate chain as PEM text, in place of a file."),
    "ssl.keystore.key": ("none", "The private key as PEM text, in place of a file."),
    "ssl.key.password": ("none", "Password of an encrypted private key in PEM."),
    "ssl.truststore.type": ("PEM", "PEM, or PKCS12 for a file of certificates."),
    "ssl.truststore.location": (
        "none",
        "File with the authorities that sign clients' certificates; read again when it changes.",
    ),
    "ssl.truststore.password": ("none", "Password of a PKCS12 file."),
    "ssl.truststore.certificates": ("none", "The authorities as PEM text, in place of a file."),
    "ssl.client.auth": ("none", "Whether clients need a certificate: none, requested, or required."),
    ENDPOINT_IDENTIFICATION: (
        "https",
        "Whether a broker looks that another one's certificate is for its host name: https, or none.",
    ),
    "ssl.enabled.protocols": ("TLSv1.2,TLSv1.3", "Versions of TLS, separated by commas."),
    "ssl.cipher.suites": (
        "ECDHE+AESGCM:ECDHE+CHACHA20",
        "Cipher suites of TLS 1.2 in OpenSSL's names, separated by commas or colons.",
    ),
    "ssl.principal.mapping.rules": (
        "DEFAULT",
        "Rules by which a principal's name comes out of a certificate's distinguished name (KIP-371).",
    ),
}
"""Every setting with its default and a sentence."""
LISTS: Final = frozenset({"ssl.enabled.protocols", "ssl.cipher.suites", "ssl.principal.mapping.rules"})
SECRETS: Final = frozenset(
    {"ssl.keystore.password", "ssl.keystore.key", "ssl.key.password", "ssl.truststore.password"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where certificates are: a file, or PEM text.

    Attributes:
        kind: `PEM` or `PKCS12`.
        location: the file's path; empty where the text is given.
        password: of a PKCS12 file, or of an encrypted key.
        certificates: PEM text; empty where there is a file.
        key: PEM text of the private key; empty where there is a file, or none.
    """

    kind: str
    location: str = ""
    password: str = field(default="", repr=False)
    certificates: str = ""
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """What a listener does about TLS.

    Attributes:
        own: the broker's certificate chain and key.
        trusted: the authorities of clients; None: no client certificate is looked at.
        client_authentication: whether clients show a certificate.
        checks_host_names: whether a broker that connects to another one looks whose certificate it is.
        protocols: of `PROTOCOLS`.
        cipher_suites: in OpenSSL's names; empty: the default.
        mapping_rules: for names of principals.
    """

    own: Store
    trusted: Store | None
    client_authentication: ClientAuthentication
    checks_host_names: bool
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    mapping_rules: tuple[MappingRule, ...]


def unknown_key_problem(key: str) -> str | None:
    """Return what is wrong with the name of a setting that begins like one of TLS, None if nothing is."""
    name = key
    if key.startswith(LISTENER_PREFIX):
        _, dot, name = key.removeprefix(LISTENER_PREFIX).partition(".")
        if not dot:
            return f"{key}: write it as {LISTENER_PREFIX}NAME.SETTING"
    if name in DESCRIPTIONS:
        return None
    return f"{key}: {name} is no setting of a listener's TLS; there are {', '.join(DESCRIPTIONS)}"


def tls_settings(listener: str, values: Mapping[str, str], *, has_logins: bool = False) -> TlsSettings:
    """Return what the settings say for a listener.

    Args:
        listener: its name.
        values: all settings that begin with `ssl.` or `listener.name.`.
        has_logins: whether clients log in by SASL. They need a certificate then only if the listener's own setting
            says so, as in Kafka.

    Raises:
        ConfigurationError: they are not enough for TLS, or contradict each other.
    """
    own_prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    given = {key: value for key, value in values.items() if key.startswith(PREFIX)}
    if has_logins:
        given.pop("ssl.client.auth", None)
    given |= {key.removeprefix(own_prefix): value for key, value in values.items() if key.startswith(own_prefix)}
    authentication = _client_authentication(given.get("ssl.client.auth", "none"))
    trusted = _store(given, "ssl.truststore", certificates="certificates")
    if trusted is None and authentication is not ClientAuthentication.NONE:
        raise ConfigurationError(
            f"ssl.client.auth={authentication} needs ssl.truststore.location or ssl.truststore.certificates"
        )
    own = _store(given, "ssl.keystore", certificates="certificate.chain")
    if own is None:
        raise ConfigurationError(
            f"the listener {listener} speaks TLS and has no certificate: set ssl.keystore.location,"
            " or ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    if own.certificates and not own.key:
        raise ConfigurationError("ssl.keystore.certificate.chain needs ssl.keystore.key beside it")
    return TlsSettings(
        own=own,
        trusted=trusted,
        client_authentication=authentication,
        checks_host_names=_checks_host_names(given.get(ENDPOINT_IDENTIFICATION, "https")),
        protocols=_protocols(given.get("ssl.enabled.protocols", ",".join(PROTOCOLS))),
        cipher_suites=tuple(_words(given.get("ssl.cipher.suites", "").replace(":", ","))),
        mapping_rules=parse_mapping_rules(given.get("ssl.principal.mapping.rules", "DEFAULT")),
    )


def normal_pem(text: str) -> str:
    r"""Return PEM text with its lines, however they were written in one line of a file of settings.

    Like Kafka, lines may be separated by blanks; ``\n`` is taken for the end of a line as well.
    """
    spaced = text.replace("\\n", "\n")
    blocks = []
    for found in _PEM_BLOCK.finditer(spaced):
        label, body = found.groups()
        if ":" in body:  # a header of a key that is encrypted in the former manner
            blocks.append(found.group())
            continue
        packed = "".join(body.split())
        lines = [packed[begin : begin + PEM_LINE_LENGTH] for begin in range(0, len(packed), PEM_LINE_LENGTH)]
        blocks.append("\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----")))
    return "\n".join((*blocks, "")) if blocks else text


def _client_authentication(text: str) -> ClientAuthentication:
    try:
        return ClientAuthentication(text.lower())
    except ValueError:
        raise ConfigurationError(f"ssl.client.auth={text}: it is none, requested, or required") from None


def _checks_host_names(text: str) -> bool:
    if text.lower() not in ("https", "none", ""):
        raise ConfigurationError(f"{ENDPOINT_IDENTIFICATION}={text}: it is https or none")
    return text.lower() == "https"


def _protocols(text: str) -> tuple[str, ...]:
    words = tuple(_words(text))
    if unknown := [word for word in words if word not in PROTOCOLS]:
        raise ConfigurationError(f"ssl.enabled.protocols: there is no {unknown[0]}, only {' and '.join(PROTOCOLS)}")
    if not words:
        raise ConfigurationError("ssl.enabled.protocols names no version of TLS")
    return words


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _store(given: Mapping[str, str], prefix: str, *, certificates: str) -> Store | None:
    location, text = given.get(f"{prefix}.location", ""), given.get(f"{prefix}.{certificates}", "")
    if not location and not text:
        return None
    if location and text:
        raise ConfigurationError(f"{prefix}.location and {prefix}.{certificates} are two sources; keep one of them")
    kind = given.get(f"{prefix}.type", PEM).upper()
    if kind == JKS or (kind == PEM and location.endswith(".jks")):
        raise ConfigurationError(
            f"{prefix}.location={location}: key stores of Java cannot be read here; convert it with `keytool"
            f" -importkeystore -srckeystore {location or 'FILE'} -destkeystore FILE.p12 -deststoretype PKCS12`"
            f" and set {prefix}.type=PKCS12"
        )
    if kind not in (PEM, PKCS12):
        raise ConfigurationError(f"{prefix}.type={kind}: it is PEM or PKCS12")
    if kind == PKCS12 and text:
        raise ConfigurationError(f"{prefix}.{certificates} is PEM text; {prefix}.type=PKCS12 needs {prefix}.location")
    text = normal_pem(text)
    password = given.get(f"{prefix}.password", "")
    if prefix == "ssl.keystore":
        password = given.get("ssl.key.password", "") or password
    key = normal_pem(given.get(f"{prefix}.key", ""))
    return Store(kind=kind, location=location, password=password, certificates=text, key=key)
