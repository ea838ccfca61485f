"""The certificate of a process between Ottla's processes, and the authorities that it trusts there, kept up to date.

Files are looked at every `CHECK_SECONDS`, in a thread, and read again when they have changed. A server takes what was
read last at each handshake; a caller makes a new channel when `version` has grown. Open connections stay.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import grpc
import structlog
from cryptography import x509

from ottla_core.errors import ConfigurationError
from ottla_core.openssl_errors import openssl_reason
from ottla_core.reloaded_files import CHECK_SECONDS, ReloadedFiles
from ottla_core.rpc_identity import RpcIdentity, RpcNames

log = structlog.get_logger("rpc")


@dataclass(frozen=True, slots=True)
class RpcTlsFiles:
    """PEM files: whom to trust, and this process's certificate chain with its private key."""

    authorities: Path
    certificate: Path
    key: Path

    @property
    def all(self) -> tuple[Path, Path, Path]:
        """Every file."""
        return self.authorities, self.certificate, self.key


@dataclass(frozen=True, slots=True)
class RpcCredentials:
    """What the files held at one moment.

    Attributes:
        version: grows with every change.
        names: the DNS names of the certificate.
        expires_at_s: seconds since 1970.
    """

    version: int
    authorities: bytes
    chain: bytes
    key: bytes
    names: tuple[str, ...]
    expires_at_s: float

    def __repr__(self) -> str:
        """Return it without the key."""
        return f"RpcCredentials(version={self.version}, names={self.names})"

    def of_client(self) -> grpc.ChannelCredentials:
        """Return what a channel shows and trusts."""
        return grpc.ssl_channel_credentials(self.authorities, self.key, self.chain)

    def of_server(self) -> grpc.ServerCertificateConfiguration:
        """Return what a server shows and trusts."""
        return grpc.ssl_server_certificate_configuration([(self.key, self.chain)], self.authorities)


class RpcTls:
    """Mutual TLS of a process.

    Args:
        files: where certificate, key and authorities are.
        names: how certificates name the cluster's processes.
        own: which process this is.

    Raises:
        ConfigurationError: the files cannot be used, or the certificate is another process's.
    """

    def __init__(self, files: RpcTlsFiles, names: RpcNames, own: RpcIdentity) -> None:
        self.files = files
        self.names = names
        self.own = own
        self._versions = count(1)
        self._reloaded = ReloadedFiles(files.all, self._read)

    @property
    def credentials(self) -> RpcCredentials:
        """What was read last."""
        return self._reloaded.contents

    @property
    def version(self) -> int:
        """Grows when the files have changed and were read."""
        return self.credentials.version

    @property
    def expires_at_s(self) -> float:
        """Until when the certificate holds, in seconds since 1970."""
        return self.credentials.expires_at_s

    @property
    def is_outdated(self) -> bool:
        """Whether the files have changed and cannot be used."""
        return self._reloaded.are_outdated

    def server_credentials(self) -> grpc.ServerCredentials:
        """Return credentials of a server that wants certificates, and has the newest of its own at each handshake."""
        served = self.version

        def newest() -> grpc.ServerCertificateConfiguration | None:
            """Return what has changed since the last handshake; gRPC calls this in a thread of its own."""
            nonlocal served
            credentials = self.credentials
            if credentials.version == served:
                return None
            served = credentials.version
            return credentials.of_server()

        return grpc.dynamic_ssl_server_credentials(
            self.credentials.of_server(),
            newest,  # type: ignore[arg-type]  # None is gRPC's word for no change
            require_client_authentication=True,
        )

    async def keep(self) -> None:
        """Look at the files now and then; does not return."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Read the files if they have changed; blocks while it does."""
        try:
            is_new = self._reloaded.look()
        except ConfigurationError as error:
            log.error("the process goes on with its former certificate", problem=str(error))
            return
        if is_new:
            log.info("the process has a new certificate", expires_at_s=int(self.expires_at_s))

    def _read(self) -> RpcCredentials:
        files = self.files
        try:
            authorities, chain, key = (path.read_bytes() for path in files.all)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(files.certificate, files.key, password="")
            context.load_verify_locations(files.authorities)
            own = x509.load_pem_x509_certificates(chain)[0]
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"rpc.tls.certificate={files.certificate}, rpc.tls.key={files.key}, rpc.tls.ca={files.authorities}: "
                f"cannot be used ({openssl_reason(error)}); they take PEM, a chain with the key that belongs to it, "
                "and authorities"
            ) from None
        except OSError as error:
            raise ConfigurationError(f"cannot read {error.filename}: {error.strerror or error}") from None
        except ValueError:
            raise ConfigurationError(f"rpc.tls.certificate={files.certificate}: no certificate in PEM") from None
        names = dns_names_of(own)
        self._check_own(names)
        expires_at_s = own.not_valid_after_utc.timestamp()
        return RpcCredentials(next(self._versions), authorities, chain, key, names, expires_at_s)

    def _check_own(self, names: Sequence[str]) -> None:
        if self.names.identities(names) != {self.own}:
            raise ConfigurationError(
                f"rpc.tls.certificate={self.files.certificate} is not for {self.own}: of its subject alternative "
                f"names ({', '.join(names) or 'none'}) exactly one that names a process of the cluster has to be "
                f"{self.names.name_of(self.own)}; rpc.tls.name says how processes are named"
            )


def dns_names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the DNS names among a certificate's subject alternative names."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(extension.value.get_values_for_type(x509.DNSName))
