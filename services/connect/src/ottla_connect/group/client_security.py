"""How the worker's own connections to the brokers are secured, by librdkafka's names of the settings.

The worker speaks the group protocol itself, so what librdkafka does for the other clients is done here with Python's
`ssl` and `sasl.py`: `security.protocol`, `sasl.mechanism`, `sasl.username`, `sasl.password`, `ssl.ca.location` or
`ssl.ca.pem`, `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password`, `ssl.cipher.suites`,
`enable.ssl.certificate.verification` and `ssl.endpoint.identification.algorithm`.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla_connect.group.sasl import MECHANISMS
from ottla_core.errors import ConfigurationError

_DEFAULT_MECHANISM = "GSSAPI"
_UNSUPPORTED = {
    "ssl.keystore.location": "PKCS12 cannot be read here; give ssl.certificate.location and ssl.key.location",
    "ssl.certificate.pem": "write the certificate into a file and give ssl.certificate.location",
    "ssl.key.pem": "write the key into a file and give ssl.key.location",
    "ssl.crl.location": "revocation lists are not supported",
    "ssl.engine.location": "OpenSSL engines are not supported",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Who the worker is to the brokers."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """What a connection is made with.

    Attributes:
        tls: the TLS context; None for connections without TLS.
        login: name and password; None where there is no SASL.
    """

    tls: ssl.SSLContext | None = None
    login: Login | None = None

    @classmethod
    def of(cls, client: Mapping[str, str]) -> "ClientSecurity":
        """Return what a client's settings, under librdkafka's names, say.

        Raises:
            ConfigurationError: something is missing, not supported, or a file cannot be used.
        """
        protocol = client.get("security.protocol", "plaintext").lower()
        if protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
            raise ConfigurationError(f"security.protocol: {protocol} is unknown")
        return cls(
            tls=_tls(client) if protocol.endswith("ssl") else None,
            login=_login(client) if protocol.startswith("sasl") else None,
        )


def _login(client: Mapping[str, str]) -> Login:
    mechanism = client.get("sasl.mechanism") or client.get("sasl.mechanisms") or _DEFAULT_MECHANISM
    if mechanism.upper() not in MECHANISMS:
        raise ConfigurationError(f"sasl.mechanism: {mechanism} is not supported; {', '.join(MECHANISMS)} are")
    missing = [key for key in ("sasl.username", "sasl.password") if not client.get(key)]
    if missing:
        raise ConfigurationError(f"{' and '.join(missing)}: must be set for {mechanism}")
    return Login(mechanism=mechanism.upper(), username=client["sasl.username"], password=client["sasl.password"])


def _tls(client: Mapping[str, str]) -> ssl.SSLContext:
    for key, advice in _UNSUPPORTED.items():
        if client.get(key):
            raise ConfigurationError(f"{key}: {advice}")
    context = ssl.create_default_context()
    if client.get("ssl.ca.location") or client.get("ssl.ca.pem"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_authorities(context, client)
    context.check_hostname = client.get("ssl.endpoint.identification.algorithm", "https").lower() != "none"
    if client.get("enable.ssl.certificate.verification", "true").lower() in ("false", "0", "f"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = client.get("ssl.certificate.location")
    if certificate:
        key = client.get("ssl.key.location") or certificate
        try:
            context.load_cert_chain(certificate, key, client.get("ssl.key.password", ""))
        except OSError as error:  # ssl.SSLError is one
            raise ConfigurationError(
                f"ssl.certificate.location {certificate}, ssl.key.location {key}: {error}"
            ) from None
    if client.get("ssl.cipher.suites"):
        try:
            context.set_ciphers(client["ssl.cipher.suites"])
        except ssl.SSLError as error:
            raise ConfigurationError(f"ssl.cipher.suites: {error}") from None
    return context


def _load_authorities(context: ssl.SSLContext, client: Mapping[str, str]) -> None:
    location, text = client.get("ssl.ca.location", ""), client.get("ssl.ca.pem")
    try:
        if text:
            context.load_verify_locations(cadata=text)
        elif location == "probe":
            context.load_default_certs()
        elif Path(location).is_dir():
            context.load_verify_locations(capath=location)
        else:
            context.load_verify_locations(cafile=location)
    except OSError as error:
        raise ConfigurationError(f"ssl.ca.{'pem' if text else f'location {location}'}: {error}") from None
