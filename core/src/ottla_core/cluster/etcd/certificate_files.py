"""The files by which a process and etcd know each other with TLS."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from ottla_core.config import EtcdSettings
from ottla_core.errors import ConfigurationError
from ottla_core.openssl_errors import openssl_reason


@dataclass(frozen=True, slots=True)
class EtcdFiles:
    """PEM files: whom to trust, and what to show; None where that is not set."""

    authorities: Path | None
    certificate: Path | None
    key: Path | None

    @classmethod
    def from_settings(cls, settings: EtcdSettings) -> "EtcdFiles | None":
        """Return the files in the settings, or None when there are none.

        Raises:
            ConfigurationError: a key lacks its certificate or the other way round.
        """
        files = cls(settings.etcd_tls_ca, settings.etcd_tls_certificate, settings.etcd_tls_key)
        if (files.key is None) != (files.certificate is None):
            raise ConfigurationError("etcd.tls.key and etcd.tls.certificate must be set together")
        return files if files.authorities is not None or files.key is not None else None

    @property
    def paths(self) -> Sequence[Path]:
        """Every file that is set."""
        return [path for path in (self.authorities, self.certificate, self.key) if path is not None]

    def credentials(self) -> grpc.ChannelCredentials:
        """Read the files.

        Raises:
            ConfigurationError: one cannot be read, or key and certificate do not belong together.
        """
        authorities = _read("etcd.tls.ca", self.authorities)
        key = _read("etcd.tls.key", self.key)
        certificate = _read("etcd.tls.certificate", self.certificate)
        if self.certificate is not None and self.key is not None:
            try:
                # Without a password OpenSSL would ask for one at the terminal.
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(self.certificate, self.key, password="")
            except ssl.SSLError as error:
                raise ConfigurationError(
                    f"etcd.tls.certificate={self.certificate} and etcd.tls.key={self.key} cannot be used "
                    f"({openssl_reason(error)})"
                ) from None
        return grpc.ssl_channel_credentials(authorities, key, certificate)


def _read(setting: str, path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path is not None else None
    except OSError as error:
        raise ConfigurationError(f"{setting}: cannot read {path}: {error.strerror}") from None
