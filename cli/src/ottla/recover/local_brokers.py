"""Where the brokers of a local cluster have their logs, and what the cluster is called in etcd: by their settings."""

from pathlib import Path

from ottla.local.cluster_directory import ClusterDirectory
from ottla.recover.etcd_access import etcd_settings
from ottla_core.errors import ConfigurationError
from ottla_core.properties_file import read_properties
from ottla_operations.errors import OperationError
from ottla_operations.local_clusters.cluster_report import ClusterReport, process_name

META_PROPERTIES = "meta.properties"


def local_log_directories(directory: ClusterDirectory, report: ClusterReport) -> dict[int, list[Path]]:
    """Return the log directories by broker; those that do not exist are left out, and so are brokers without any.

    Raises:
        OperationError: a file with settings cannot be read.
    """
    found: dict[int, list[Path]] = {}
    numbers = {int(path.stem.rpartition("-")[2]) for path in directory.config.glob("broker-*.properties")}
    for broker in sorted({*range(1, report.brokers + 1), *numbers}):
        name = process_name("broker", broker)
        try:
            properties = read_properties(directory.config_of(name)) if directory.config_of(name).exists() else {}
        except ConfigurationError as error:
            raise OperationError(str(error)) from None
        log_dirs = properties.get("log.dirs", str(directory.data_of(name)))
        paths = [path for text in log_dirs.split(",") if ((path := Path(text.strip())) / META_PROPERTIES).exists()]
        if paths:
            found[broker] = paths
    return found


def name_of_cluster(directory: ClusterDirectory) -> str | None:
    """Return the cluster's name in etcd by the settings of a broker; None if there is no such file."""
    config = directory.config_of(process_name("broker", 1))
    return etcd_settings(None, config, None).cluster_name if config.exists() else None
