"""A local cluster that was started with --secure, and certificates that it should and should not accept."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ottla.secure.authority import IssuedCertificate, Subject, issue
from ottla_core.rpc.tls import RpcTls, RpcTlsFiles
from ottla_core.rpc_identity import NAME_PATTERN, RpcIdentity, RpcNames
from tests.support.clusters.ottla_cluster import OttlaCluster, Service

NAMES = RpcNames(NAME_PATTERN, "ottla")
YEAR = timedelta(days=365)


@dataclass
class SecuredCluster:
    """The cluster, and a folder for certificates that tests make."""

    cluster: OttlaCluster
    made: Path

    @property
    def tls(self) -> Path:
        """The folder of its certificates."""
        return self.cluster.directory / "tls"

    def client_settings(self) -> dict[str, str]:
        """The administrator's settings for clients, as the file says them."""
        lines = (self.tls / "admin" / "client.properties").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def authority(self) -> IssuedCertificate:
        """The cluster's authority, as it signs now."""
        folder = self.tls / "authority"
        return IssuedCertificate((folder / "ca.pem").read_bytes(), (folder / "ca.key").read_bytes())

    def certificate(
        self, identity: RpcIdentity, *, authority: IssuedCertificate | None = None, valid: timedelta = YEAR
    ) -> RpcTlsFiles:
        """Writes a certificate for a process, of the cluster's authority or another; it trusts the cluster's."""
        name = f"{identity.role}-{identity.id}"
        return self.written(Subject(name, (NAMES.name_of(identity), "127.0.0.1")), authority, valid)

    def client(self, common_name: str) -> dict[str, str]:
        """The settings of a client of that name."""
        files = self.written(Subject(common_name))
        return {
            **self.client_settings(),
            "ssl.certificate.location": str(files.certificate),
            "ssl.key.location": str(files.key),
        }

    def written(
        self, subject: Subject, authority: IssuedCertificate | None = None, valid: timedelta = YEAR
    ) -> RpcTlsFiles:
        """Writes a certificate for anybody, and its key."""
        name = subject.common_name
        issued = issue(authority or self.authority(), subject, datetime.now(UTC), valid)
        number = len(list(self.made.iterdir()))
        certificate, key = self.made / f"{number}-{name}.pem", self.made / f"{number}-{name}.key"
        certificate.write_bytes(issued.chain)
        key.write_bytes(issued.key)
        return RpcTlsFiles(self.tls / "admin" / "ca.pem", certificate, key)

    def as_process(self, identity: RpcIdentity, **wanted: object) -> RpcTls:
        """The TLS of a process with such a certificate."""
        return RpcTls(self.certificate(identity, **wanted), NAMES, identity)  # type: ignore[arg-type]

    def services(self, *roles: str) -> Sequence[Service]:
        """Its processes of these roles, as they are now."""
        return [each for each in self.cluster.recorded() if each.role in roles]

    def rpc_address(self, service: Service) -> str:
        """Where a process listens for others."""
        document = json.loads((self.cluster.directory / "cluster.json").read_text())
        name = f"{service.role}-{service.id}"
        (address,) = [each["rpc"] for each in document["processes"] if each["name"] == name]
        return str(address)

    def log_of(self, service: Service) -> str:
        """All that a process has logged."""
        return (self.cluster.directory / "logs" / f"{service.role}-{service.id}.log").read_text()
