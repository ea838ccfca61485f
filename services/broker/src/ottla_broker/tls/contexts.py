"""OpenSSL's contexts of a listener, made of its settings, for both ends; and who a client's certificate stands for.

Python loads a certificate and its key from files only. What is given as text, or in a PKCS#12 file, goes through a
file in memory that nobody else can open, never through a disk.
"""

import os
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from ottla_broker.tls.tls_settings import PKCS12, ClientAuthentication, Store, TlsSettings
from ottla_core.distinguished_names import distinguished_name
from ottla_core.errors import ConfigurationError
from ottla_core.principal import ANONYMOUS, USER, Principal
from ottla_core.principal_mapping import MappingRule, principal_name

CIPHER_SUITES: Final = ("ECDHE+AESGCM", "ECDHE+CHACHA20")
"""Of TLS 1.2, where nobody says otherwise: those with forward secrecy whose encryption authenticates, too."""
OP_ENABLE_KTLS: Final = 1 << 3
"""OpenSSL's SSL_OP_ENABLE_KTLS, which Python names from 3.12 on: the kernel encrypts where it can."""
_VERIFICATION: Final = {
    ClientAuthentication.NONE: ssl.CERT_NONE,
    ClientAuthentication.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuthentication.REQUIRED: ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a context that accepts connections as the settings say; blocks while it reads files.

    Raises:
        ConfigurationError: a file or a text cannot be used; the message has no secret in it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _limit(context, settings)
    _load_own(context, settings.own)
    context.verify_mode = _VERIFICATION[settings.client_authentication]
    if settings.trusted is not None:
        _load_trusted(context, settings.trusted)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a context that connects to the same listener of other brokers; blocks while it reads files.

    The broker shows them its own certificate, and trusts the same authorities, or those of the system.

    Raises:
        ConfigurationError: as with `server_context`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host_names
    _limit(context, settings)
    _load_own(context, settings.own)
    if settings.trusted is not None:
        _load_trusted(context, settings.trusted)
    else:
        context.load_default_certs()
    return context


def _limit(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = sorted(_VERSIONS[each] for each in settings.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.Options(OP_ENABLE_KTLS)
    suites = settings.cipher_suites or CIPHER_SUITES
    try:
        context.set_ciphers(":".join(suites))
    except ssl.SSLError:
        raise ConfigurationError(f"ssl.cipher.suites: OpenSSL knows none of {', '.join(suites)}") from None


def principal_of(certificate: bytes | None, rules: Sequence[MappingRule]) -> Principal | None:
    """Return who a client is by its certificate, None where no rule names it.

    Args:
        certificate: DER; None for a client that has shown none.
        rules: of the listener.
    """
    if certificate is None:
        return ANONYMOUS
    name = principal_name(rules, distinguished_name(x509.load_der_x509_certificate(certificate).subject))
    return None if name is None else Principal(USER, name)


def _load_own(context: ssl.SSLContext, store: Store) -> None:
    try:
        if store.kind == PKCS12:
            with _in_memory(_pem_of_pkcs12(store)) as file:
                context.load_cert_chain(file)
        elif store.location:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(store.location, password=store.password)
        else:
            with _in_memory(store.certificates.encode()) as chain, _in_memory(store.key.encode()) as key:
                context.load_cert_chain(chain, key, store.password)
    except ssl.SSLError as error:
        named = store.location or "ssl.keystore.certificate.chain"
        raise ConfigurationError(
            f"{named}: certificate and key cannot be used ({_reason(error)}); it takes a chain, the key that belongs"
            " to it, and ssl.key.password if the key is encrypted"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"ssl.keystore.location={store.location}: {error.strerror or error}") from None


def _load_trusted(context: ssl.SSLContext, store: Store) -> None:
    try:
        if store.kind == PKCS12:
            context.load_verify_locations(cadata=_certificates_of_pkcs12(store))
        elif store.location:
            context.load_verify_locations(cafile=store.location)
        else:
            context.load_verify_locations(cadata=store.certificates)
    except ssl.SSLError as error:
        named = store.location or "ssl.truststore.certificates"
        raise ConfigurationError(f"{named}: no certificates in PEM ({_reason(error)})") from None
    except OSError as error:
        raise ConfigurationError(f"ssl.truststore.location={store.location}: {error.strerror or error}") from None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "").replace("_", " ").lower() or "no reason is given"


def _pem_of_pkcs12(store: Store) -> bytes:
    found = _read_pkcs12(store, "ssl.keystore")
    if found.key is None or found.cert is None:
        raise ConfigurationError(f"ssl.keystore.location={store.location}: it has no private key with a certificate")
    encoding = serialization.Encoding.PEM
    chain = (found.cert, *found.additional_certs)
    return b"".join(
        (
            found.key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
            *(each.certificate.public_bytes(encoding) for each in chain),
        )
    )


def _certificates_of_pkcs12(store: Store) -> bytes:
    found = _read_pkcs12(store, "ssl.truststore")
    certificates = [*([found.cert] if found.cert is not None else []), *found.additional_certs]
    if not certificates:
        raise ConfigurationError(f"ssl.truststore.location={store.location}: it has no certificates")
    return b"".join(each.certificate.public_bytes(serialization.Encoding.DER) for each in certificates)


def _read_pkcs12(store: Store, prefix: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(
            Path(store.location).read_bytes(), store.password.encode() if store.password else None
        )
    except ValueError:
        raise ConfigurationError(
            f"{prefix}.location={store.location}: not PKCS12, or {prefix}.password is not its password"
        ) from None


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Yield the path of a file in memory."""
    descriptor = os.memfd_create("ottla-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
