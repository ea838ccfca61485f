"""TLS with Python's `ssl`, by librdkafka's names of the settings, and what its errors mean.

`ssl.ca.location` or `ssl.ca.pem`, `ssl.certificate.location` or `ssl.certificate.pem`, `ssl.key.location` or
`ssl.key.pem`, `ssl.key.password`, `ssl.cipher.suites`, `enable.ssl.certificate.verification` and
`ssl.endpoint.identification.algorithm`.
"""

import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla_core.client.errors import AuthenticationFailed, Unreachable
from ottla_core.errors import ConfigurationError

_UNSUPPORTED: Final = {
    "ssl.keystore.location": "PKCS12 cannot be read here; give ssl.certificate.location and ssl.key.location",
    "ssl.crl.location": "revocation lists are not supported here",
    "ssl.engine.location": "OpenSSL engines are not supported here",
    "ssl.providers": "OpenSSL providers are not supported here",
    "ssl.curves.list": "curves cannot be chosen here",
    "ssl.sigalgs.list": "signature algorithms cannot be chosen here",
}
_FALSE: Final = ("false", "0", "f")
_REFUSALS: Final = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "HANDSHAKE_FAILURE")
"""Parts of the names of the alerts by which a broker says that it does not want our certificate, or misses one."""


def tls_context(client: Mapping[str, str]) -> ssl.SSLContext:
    """Return what a client's settings say.

    Raises:
        ConfigurationError: a setting is not supported, or a file or a text in it cannot be used.
    """
    for key, advice in _UNSUPPORTED.items():
        if client.get(key):
            raise ConfigurationError(f"{key}: {advice}")
    context = ssl.create_default_context()
    if client.get("ssl.ca.location") or client.get("ssl.ca.pem"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_authorities(context, client)
    context.check_hostname = client.get("ssl.endpoint.identification.algorithm", "https").lower() != "none"
    if client.get("enable.ssl.certificate.verification", "true").lower() in _FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load_own_certificate(context, client)
    if client.get("ssl.cipher.suites"):
        try:
            context.set_ciphers(client["ssl.cipher.suites"])
        except ssl.SSLError as error:
            raise ConfigurationError(f"ssl.cipher.suites: {error}") from None
    return context


def tls_problem(address: str, error: ssl.SSLError) -> AuthenticationFailed | Unreachable:
    """Return what an error of TLS on a connection means: a refusal stays one, all else may be over the next time."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(f"{address}: {error.verify_message or error}")
    reason = error.reason or ""
    if "ALERT" in reason and any(each in reason for each in _REFUSALS):
        alert = reason.partition("ALERT_")[2].replace("_", " ").lower()
        return AuthenticationFailed(f"{address} does not accept our certificate, or misses one ({alert})")
    return Unreachable(f"{address} ({reason.replace('_', ' ').lower() or error.strerror or error})")


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
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(f"ssl.ca.{'pem' if text else f'location {location}'}: {error}") from None


def _load_own_certificate(context: ssl.SSLContext, client: Mapping[str, str]) -> None:
    certificate, key = _source(client, "ssl.certificate"), _source(client, "ssl.key")
    if certificate is None:
        if key is not None:
            raise ConfigurationError(f"{key}: is of no use without ssl.certificate.location or ssl.certificate.pem")
        return
    key = key or certificate
    try:
        with _file_of(client, certificate) as certificate_file, _file_of(client, key) as key_file:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(certificate_file, key_file, client.get("ssl.key.password", ""))
    except OSError as error:
        named = [
            name if name.endswith(".pem") else f"{name} {client[name]}" for name in dict.fromkeys((certificate, key))
        ]
        raise ConfigurationError(f"{', '.join(named)}: {error}") from None


def _source(client: Mapping[str, str], prefix: str) -> str | None:
    """Return the setting that says where something is, the text itself before a file's name."""
    return next((name for name in (f"{prefix}.pem", f"{prefix}.location") if client.get(name)), None)


def _told(client: Mapping[str, str], name: str) -> str:
    return name if name.endswith(".pem") else f"{name} {client[name]}"


@contextmanager
def _file_of(client: Mapping[str, str], name: str) -> Iterator[str]:
    """Yield a file's name: Python reads certificates and keys of its own from nowhere else."""
    if not name.endswith(".pem"):
        yield client[name]
        return
    with tempfile.NamedTemporaryFile("w", prefix="ottla-", suffix=".pem") as file:  # nobody else may read it
        file.write(client[name])
        file.flush()
        yield file.name
