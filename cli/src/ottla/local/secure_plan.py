"""What processes of a secured local cluster are told besides: certificates, listeners with TLS, etcd's flags. Pure.

Every process has a folder of certificates below the cluster's directory (`secure/certificate_folder.py` fills it). To
etcd it is a user, to others a role and an id, to brokers' listeners a principal, all by the same certificate.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.local.health import RpcTlsSource
from ottla_core.rpc_identity import ADMIN, NAME_PATTERN, RpcNames

CLUSTER: Final = "ottla"
"""The name of every local cluster."""
TLS_FOLDER: Final = "tls"
CONNECTOR_FILES: Final = "connector-files"
CA, CERTIFICATE, KEY, BOTH = "ca.pem", "certificate.pem", "key.pem", "both.pem"
CLIENT_FILE: Final = "client.properties"
REST_FILE: Final = "rest.properties"
ETCD_ROOT: Final = "etcd-root"
LISTENER: Final = "SSL"
AUTHORIZER: Final = "StandardAuthorizer"
PRINCIPAL_RULES: Final = "RULE:^CN=(.*?)$/$1/,DEFAULT"
"""The principal of a client is its certificate's common name, such as ``User:admin``."""
LOGGED_HANDSHAKES: Final = {"GRPC_VERBOSITY": "INFO"}
"""gRPC tells of handshakes that it refuses in its own log only."""


def file_of(directory: Path, holder: str, name: str) -> Path:
    """Return where a file of a holder of a certificate is."""
    return directory / TLS_FOLDER / holder / name


def process_properties(directory: Path, holder: str) -> dict[str, str]:
    """Return what a process is told that speaks with others and with etcd."""
    return {
        f"{where}.tls.{name}": path for where in ("rpc", "etcd") for name, path in _files(directory, holder).items()
    }


def etcd_root_properties(directory: Path) -> dict[str, str]:
    """Return the settings of who may do everything in etcd, for what writes the cluster's state itself."""
    return {f"etcd.tls.{name}": path for name, path in _files(directory, ETCD_ROOT).items()}


def _files(directory: Path, holder: str) -> dict[str, str]:
    return {
        name: str(file_of(directory, holder, file))
        for name, file in (("ca", CA), ("certificate", CERTIFICATE), ("key", KEY))
    }


def broker_properties(directory: Path, holder: str, address: str, trusted: Sequence[str]) -> dict[str, str]:
    """Return what a broker is told of its listener, and of who may do what there.

    Args:
        directory: of the cluster.
        holder: the broker.
        address: where clients and other brokers come with certificates.
        trusted: holders that may do everything, beside the administrator; all others need access control lists.
    """
    return {
        "authorizer.class.name": AUTHORIZER,
        "super.users": ";".join(f"User:{name}" for name in (ADMIN, *trusted)),
        "listeners": f"{LISTENER}://{address}",
        "advertised.listeners": f"{LISTENER}://{address}",
        "inter.broker.listener.name": LISTENER,
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(file_of(directory, holder, BOTH)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(file_of(directory, holder, CA)),
        "ssl.principal.mapping.rules": PRINCIPAL_RULES,
    }


def client_properties(directory: Path, holder: str) -> dict[str, str]:
    """Return the settings of a worker's clients, in the words of Java's."""
    return {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(file_of(directory, holder, BOTH)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(file_of(directory, holder, CA)),
    }


def rest_properties(directory: Path, holder: str, url: str) -> dict[str, str]:
    """Return what a worker is told of its REST API: whoever shows no certificate learns only whether it works.

    Args:
        directory: of the cluster.
        holder: the worker.
        url: where it listens.
    """
    return {
        "listeners": url,
        "listeners.https.ssl.keystore.location": str(file_of(directory, holder, BOTH)),
        "listeners.https.ssl.truststore.location": str(file_of(directory, holder, CA)),
        "listeners.https.ssl.client.auth": "requested",
        "listeners.https.ssl.principal.mapping.rules": PRINCIPAL_RULES,
        "rest.authentication.methods": "certificate",
        "rest.administrators": f"User:{ADMIN}",
    }


def connector_files_of(directory: Path) -> Path:
    """Return where connectors may read and write files."""
    return directory / CONNECTOR_FILES


def etcd_flags(directory: Path, holder: str) -> dict[str, str]:
    """Return the flags of a member of etcd that takes nobody without a certificate, neither clients nor members."""
    ca, certificate, key = (str(file_of(directory, holder, name)) for name in (CA, CERTIFICATE, KEY))
    return {
        f"{peer}{flag}": value
        for peer in ("", "peer-")
        for flag, value in (
            ("client-cert-auth", "true"),
            ("trusted-ca-file", ca),
            ("cert-file", certificate),
            ("key-file", key),
        )
    }


def administrator_tls(directory: Path) -> RpcTlsSource:
    """Return what the command shows to processes that it asks for their health."""
    return RpcTlsSource(
        authorities=file_of(directory, ADMIN, CA),
        certificate=file_of(directory, ADMIN, CERTIFICATE),
        key=file_of(directory, ADMIN, KEY),
        names=RpcNames(NAME_PATTERN, CLUSTER),
    )


def authorities_of(directory: Path) -> Path:
    """Return the file with the authorities of the cluster's certificates."""
    return file_of(directory, ADMIN, CA)


def rest_file_of(directory: Path) -> Path:
    """Return where the administrator's settings for the REST APIs of workers are."""
    return file_of(directory, ADMIN, REST_FILE)


def client_file_of(directory: Path) -> Path:
    """Return where the administrator's settings for clients are, in librdkafka's words."""
    return file_of(directory, ADMIN, CLIENT_FILE)
