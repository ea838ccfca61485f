"""Gathering facts for `ottla doctor`, of which a local cluster tells more: processes, certificates, addresses."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ottla.kafka_client import client_config
from ottla.local.cluster_directory import ClusterDirectory, default_directory
from ottla.local.running_cluster import look_at
from ottla.local.secure_plan import TLS_FOLDER
from ottla_operations.doctor.findings import Facts
from ottla_operations.doctor.gathering import Addresses, Source, beside_brokers, of_brokers, view_of
from ottla_operations.kafka_access import check_settings
from ottla_operations.local_clusters.cluster_report import ClusterReport

ENDS_SOON = timedelta(days=30)


def gathered(
    bootstrap: str, properties: Sequence[str] | None, directory: Path | None, addresses: Addresses
) -> tuple[Facts, list[str]]:
    """Return what is known of a cluster, and which sources did not tell.

    Raises:
        OperationError: a property, or a setting of the profile, cannot be used.
    """
    silent: list[str] = []
    local = look_at(ClusterDirectory(directory or default_directory()))
    if local is not None and directory is None and local.bootstrap != bootstrap:
        local = None
    bootstrap = local.bootstrap if local is not None else bootstrap
    config = client_config(bootstrap, properties)
    check_settings(config)
    view = view_of(bootstrap, config, silent)
    if local is not None and local.state == "stopped":
        if view is None:
            return Facts(local=local), []
        local = None  # another cluster has its address
    facts = beside_brokers(Facts(view=view, local=local), _known(addresses, local), silent, _sources(local))
    return facts if view is None else of_brokers(facts, view, bootstrap, config, silent), silent


def _sources(local: ClusterReport | None) -> list[Source]:
    """Return what else a local cluster can be asked for."""
    if local is None or not local.is_secure:
        return []
    folder = Path(local.directory) / TLS_FOLDER
    return [("days_left", "certificates", lambda: _days_left(folder))]


def _known(addresses: Addresses, local: ClusterReport | None) -> Addresses:
    """Return the addresses with those of a local cluster where none are named."""
    if local is None:
        return addresses
    return Addresses(
        connect=addresses.connect or ",".join(local.connect),
        mirror=addresses.mirror or ",".join(local.mirror),
        etcd=addresses.etcd or ",".join(_pages_of_etcd(local)),
        rest_config=None if addresses.connect or addresses.mirror else local.rest_config,
    )


def _pages_of_etcd(local: ClusterReport) -> Sequence[str]:
    """Return where etcd's members show metrics and health; not at a port that asks for certificates."""
    if not local.is_secure:
        return local.etcd
    return [each.metrics.removesuffix("/metrics") for each in local.processes if each.role == "etcd" and each.metrics]


def _days_left(folder: Path) -> dict[str, int]:
    """Return how long those certificates are valid that end soon."""
    from ottla.secure.certificate_folder import CertificateFolder  # noqa: PLC0415 - imports cryptography

    now = datetime.now(UTC)
    left = {each.holder: each.ends - now for each in CertificateFolder(folder).facts()}
    return {holder: each.days for holder, each in left.items() if each < ENDS_SOON}
