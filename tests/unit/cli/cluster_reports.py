"""Reports that a cluster has left in its directory."""

from typing import Any

from ottla_operations.local_clusters.cluster_report import ClusterReport


def last_run(**changes: Any) -> ClusterReport:
    """What a cluster of three brokers left, with some changes."""
    values: dict[str, Any] = {
        "bootstrap": "127.0.0.1:7000", "directory": "/data", "state": "stopped", "etcd": ("http://127.0.0.1:1",),
        "embedded_etcd": True, "brokers": 3, "controllers": 2, "base_port": 7000,
        "coordinators": 3, "supervisor_pid": 1, "supervisor_start": "x", "log": "/data/log",
    }  # fmt: skip
    return ClusterReport(**{**values, **changes})
