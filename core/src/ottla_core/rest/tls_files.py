"""TLS of REST APIs, by files that may change: each handshake goes by the files as they are then.

Files that cannot be used leave what was read before, and the log says why, once.
"""

import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import structlog

from ottla_core.errors import ConfigurationError
from ottla_core.openssl_errors import openssl_reason
from ottla_core.reloaded_files import ReloadedFiles
from ottla_core.rest.settings import RestTls

CLIENT_CERTIFICATES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

log = structlog.get_logger("rest")


class FileContext(ssl.SSLContext):
    """A context that has each connection begin by the context which the files make."""

    _files: ReloadedFiles[ssl.SSLContext]

    @classmethod
    def of(cls, protocol: int, files: Sequence[Path], load: Callable[[], ssl.SSLContext]) -> Self:
        """Return a context.

        Args:
            protocol: `ssl.PROTOCOL_TLS_SERVER` or `ssl.PROTOCOL_TLS_CLIENT`.
            files: the files that are looked at.
            load: makes a context of them; raises `ConfigurationError` if they cannot be used.

        Raises:
            ConfigurationError: they cannot be used.
        """
        context = cls(protocol)
        context._files = ReloadedFiles(files, load)
        return context

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """Begin a connection."""
        return self._current().wrap_bio(*arguments, **named)

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        """Begin a connection on a socket."""
        return self._current().wrap_socket(*arguments, **named)

    def _current(self) -> ssl.SSLContext:
        try:
            if self._files.look():
                log.info("the certificate of the REST API is read again", file=str(self._files.paths[0]))
        except ConfigurationError as error:
            log.error("the former certificate of the REST API stays in use", problem=str(error))
        return self._files.contents


def server_context(tls: RestTls) -> ssl.SSLContext:
    """Return how https listeners take connections.

    Raises:
        ConfigurationError: the certificate cannot be used.
    """

    def load() -> ssl.SSLContext:
        context = _loaded(tls, ssl.Purpose.CLIENT_AUTH, "of https listeners")
        context.verify_mode = CLIENT_CERTIFICATES[tls.client_certificates]
        versions = sorted(VERSIONS[each] for each in tls.protocols)
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
        try:
            context.set_ciphers(":".join(tls.cipher_suites))
        except ssl.SSLError:
            suites = ", ".join(tls.cipher_suites)
            raise ConfigurationError(
                f"listeners.https.ssl.cipher.suites={suites}: OpenSSL knows none of them"
            ) from None
        return context

    return FileContext.of(ssl.PROTOCOL_TLS_SERVER, _files(tls), load)


def client_tls(tls: RestTls | None) -> ssl.SSLContext | None:
    """Return how this worker speaks to others over https; None: as the system's authorities say.

    Raises:
        ConfigurationError: the certificate cannot be used.
    """
    if tls is None:
        return None
    return FileContext.of(
        ssl.PROTOCOL_TLS_CLIENT, _files(tls), lambda: _loaded(tls, ssl.Purpose.SERVER_AUTH, "to speak to workers")
    )


def _loaded(tls: RestTls, purpose: ssl.Purpose, use: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(purpose, cafile=tls.authorities)
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(tls.certificate, tls.key, tls.key_password or "")
    except OSError as error:
        reason = openssl_reason(error) if isinstance(error, ssl.SSLError) else error.strerror
        named = f"listeners.https.ssl.keystore.location={tls.certificate}"
        raise ConfigurationError(f"cannot use the certificate {use} ({named}): {reason}") from None
    return context


def _files(tls: RestTls) -> Sequence[Path]:
    return [path for path in (tls.certificate, tls.key, tls.authorities) if path is not None]
