"""Certificates of processes as tests want them: of one authority or another, for any process, until any time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from ottla.secure.authority import IssuedCertificate, Subject, issue, new_authority
from ottla_core.rpc.tls import RpcTls, RpcTlsFiles
from ottla_core.rpc_identity import NAME_PATTERN, RpcIdentity, RpcNames

CLUSTER = "test"
NAMES = RpcNames(NAME_PATTERN, CLUSTER)
YEAR = timedelta(days=365)


class ProcessCertificates:
    """An authority and what it issues, as files in a folder."""

    def __init__(self, folder: Path, *, name: str = "authority") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.authority: IssuedCertificate = new_authority(name, datetime.now(UTC), YEAR)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self.authority.chain)

    def files(
        self, identity: RpcIdentity, *, valid: timedelta = YEAR, trusted: Path | None = None, name: str = ""
    ) -> RpcTlsFiles:
        """Writes a certificate for a process, of this authority, which trusts this authority or `trusted`."""
        label = name or f"{identity.role}-{identity.id}"
        issued = issue(
            self.authority, Subject(label, (NAMES.name_of(identity), "127.0.0.1")), datetime.now(UTC), valid
        )
        certificate, key = self.folder / f"{label}.pem", self.folder / f"{label}.key"
        certificate.write_bytes(issued.chain)
        key.write_bytes(issued.key)
        return RpcTlsFiles(trusted or self.ca, certificate, key)

    def tls(self, identity: RpcIdentity, **wanted: object) -> RpcTls:
        """The same, as a process has it."""
        return RpcTls(self.files(identity, **wanted), NAMES, identity)  # type: ignore[arg-type]


def rpc_settings(files: RpcTlsFiles) -> dict[str, str]:
    """The settings of a process with these files."""
    return {
        "rpc.tls.ca": str(files.authorities),
        "rpc.tls.certificate": str(files.certificate),
        "rpc.tls.key": str(files.key),
    }
