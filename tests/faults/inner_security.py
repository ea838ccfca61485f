"""Certificates between the processes of a trial's cluster, and users in its etcd; for `--secure`.

The programs of the load, mirror workers, and brokers of another cluster that follow this one have listeners of their
own (`access/secured_clients.py`). Brokers fetch from each other by one with certificates. Certificates begin long
before the trial, as clocks are set wrong in it.
"""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ottla.secure.authority import IssuedCertificate, Subject, issue
from ottla.secure.certificate_folder import AUTHORITY, BOTH, CA, CA_KEY, CERTIFICATE, KEY, CertificateFolder
from ottla.secure.etcd_users import make_users
from ottla.secure.holders import ETCD_ROOT, ClusterHolders
from ottla_core.rpc_identity import ADMIN
from ottla_operations.errors import OperationError
from tests.faults.fault import BROKER, CONTROLLER, COORDINATOR, ETCD, Members, id_of, role_of
from tests.faults.network import Network
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK

MIRROR = "mirror"
LISTENER, LISTENER_PORT = "SSL", 9093
BACKDATED = timedelta(days=60)
VALID = timedelta(days=400)
USERS_WITHIN_S = 60.0


class InnerSecurity:
    """The certificates of one cluster; mirror workers, if there are any, have some of its authority as well."""

    def __init__(
        self,
        directory: Path,
        cluster_name: str,
        members: Members,
        network: Network,
        mirror_workers: Sequence[str] = (),
    ) -> None:
        self._cluster_name = cluster_name
        self._counts = {role: len(members.of(role)) for role in (BROKER, CONTROLLER, COORDINATOR, ETCD)}
        holders = ClusterHolders(
            cluster=cluster_name,
            counts=self._counts | {MIRROR: len(mirror_workers)},
            administrator="admin",
            # Without namespaces members of etcd come to each other from this address, and certificates must have it.
            hosts={_holder(name): (network.address_of(name), LOOPBACK) for name in (*members.all, *mirror_workers)},
        )
        self._folder = CertificateFolder.create(
            directory / f"{members.site}tls",
            holders,
            now=datetime.now(UTC) - BACKDATED,
            valid=VALID,
            authority_valid=VALID,
        )

    @property
    def authority(self) -> Path:
        """The certificate by which clients know brokers."""
        return Path(self._file(ADMIN, CA))

    def process_properties(self, name: str) -> dict[str, str]:
        """Settings of a process towards others and etcd."""
        files = {"ca": CA, "certificate": CERTIFICATE, "key": KEY}
        return {f"{w}.tls.{key}": self._file(name, file) for w in ("rpc", "etcd") for key, file in files.items()}

    def listener_properties(self, name: str, listeners: str, address: str) -> dict[str, str]:
        """Settings of a broker with a listener for other brokers beside the others."""
        return {
            "listeners": f"{listeners},{LISTENER}://{address}:{LISTENER_PORT}",
            "inter.broker.listener.name": LISTENER,
            "ssl.client.auth": "required",
            "ssl.keystore.location": self._file(name, BOTH),
            "ssl.truststore.location": self._file(name, CA),
        }

    def client_files(self, user: str, authority: IssuedCertificate | None = None) -> dict[str, str]:
        """With what a user shows who it is, in librdkafka's words: a certificate of this authority or of another."""
        own = self._folder.path / AUTHORITY
        signer = authority or IssuedCertificate((own / CA).read_bytes(), (own / CA_KEY).read_bytes())
        kept = self._folder.path / f"client-{user}{'' if authority is None else '-of-another'}"
        files = {"ssl.certificate.location": kept / CERTIFICATE, "ssl.key.location": kept / KEY}
        if not kept.exists():
            issued = issue(signer, Subject(user), datetime.now(UTC) - BACKDATED, VALID)
            kept.mkdir(mode=0o700)
            (kept / CERTIFICATE).write_bytes(issued.chain)
            (kept / KEY).write_bytes(issued.key)
        return {name: str(path) for name, path in files.items()}

    def rest_properties(self, worker: str) -> dict[str, str]:
        """Settings of a mirror worker that answers holders of certificates only."""
        return {
            "listeners.https.ssl.keystore.location": self._file(worker, BOTH),
            "listeners.https.ssl.truststore.location": self._file(worker, CA),
            "listeners.https.ssl.client.auth": "required",
            "rest.authentication.methods": "certificate",
        }

    def administrator(self) -> ssl.SSLContext:
        """With what the administrator speaks to mirror workers."""
        context = ssl.create_default_context(cafile=self._file(ADMIN, CA))
        context.load_cert_chain(self._file(ADMIN, BOTH))
        return context

    def etcd_flags(self, name: str) -> dict[str, str]:
        """Flags of a member of etcd."""
        return {
            f"{peer}{flag}": value
            for peer in ("", "peer-")
            for flag, value in (
                ("client-cert-auth", "true"),
                ("trusted-ca-file", self._file(name, CA)),
                ("cert-file", self._file(name, CERTIFICATE)),
                ("key-file", self._file(name, KEY)),
            )
        }

    def etcdctl_options(self) -> list[str]:
        """Options with which etcdctl is etcd's user `root`."""
        ca, certificate, key = (str(path) for path in self._root_files())
        return ["--cacert", ca, "--cert", certificate, "--key", key]

    def make_users(self, endpoint: str) -> None:
        """Makes the users, as soon as etcd has a leader."""

        def made() -> bool:
            try:
                make_users(endpoint, self._root_files(), self._cluster_name, self._counts)
            except OperationError:
                return False
            return True

        eventually(made, "etcd knows its users", within_s=USERS_WITHIN_S)

    def _root_files(self) -> tuple[Path, Path, Path]:
        folder = self._folder
        return folder.file(ETCD_ROOT, CA), folder.file(ETCD_ROOT, CERTIFICATE), folder.file(ETCD_ROOT, KEY)

    def _file(self, name: str, file: str) -> str:
        return str(self._folder.file(name if name == ADMIN else _holder(name), file))


def _holder(name: str) -> str:
    return f"{role_of(name)}-{id_of(name)}"
