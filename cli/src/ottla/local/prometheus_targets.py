"""The metrics of a local cluster as Prometheus finds them: a file for its `file_sd_configs`.

Ports of metrics change with every start; Prometheus reads the file again when it is replaced. A target keeps its name
as the label `instance`, so that its series go on when its port has changed. Pure.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from ottla_operations.local_clusters.cluster_report import ClusterReport


def prometheus_targets(report: ClusterReport) -> Sequence[dict[str, Any]]:
    """Return what Prometheus' `file_sd_configs` reads: one group of targets for each process that shows metrics."""
    return [
        {
            "targets": [urlsplit(each.metrics).netloc],
            "labels": {"job": "etcd" if each.role == "etcd" else f"ottla-{each.role}", "instance": each.name},
        }
        for each in report.processes
        if each.metrics is not None
    ]
