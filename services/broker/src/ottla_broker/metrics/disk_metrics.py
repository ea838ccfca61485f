"""What is left on the disks of log directories."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ottla_broker.log.directories.cluster_copies import ClusterCopies
from ottla_broker.log.store.log_store import LogStore
from ottla_broker.metrics.disk_forecast import DiskForecast
from ottla_core.observe.metrics import Labels, Metrics


def show_disks(metrics: Metrics, store: LogStore, copies: ClusterCopies) -> None:
    """Show what is left on each directory's disk; nothing of a directory whose disk does not answer."""
    metrics.show_value("ottla_broker_cluster_copies_behind", copies.behind)
    forecasts = {directory.path: DiskForecast() for directory in store.directories}

    def until_full() -> Iterable[tuple[float, Labels]]:
        for path, space in _spaces(forecasts):
            free_bytes = space.f_bavail * space.f_frsize
            yield forecasts[path].until_full_s(time.monotonic(), free_bytes), {"directory": str(path)}

    metrics.show(
        "ottla_broker_disk_free_bytes",
        lambda: [(space.f_bavail * space.f_frsize, {"directory": str(path)}) for path, space in _spaces(forecasts)],
    )
    metrics.show(
        "ottla_broker_disk_size_bytes",
        lambda: [(space.f_blocks * space.f_frsize, {"directory": str(path)}) for path, space in _spaces(forecasts)],
    )
    metrics.show("ottla_broker_disk_until_full_seconds", until_full)


def _spaces(paths: Iterable[Path]) -> Iterator[tuple[Path, os.statvfs_result]]:
    for path in paths:
        try:
            yield path, os.statvfs(path)
        except OSError:  # the directory's own errors tell what is wrong with it
            continue
