"""`ottla status`, `ottla down`: a local cluster of real processes, seen from outside."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ottla.commands.local_options import Directory
from ottla.kafka_client import Json
from ottla.local.cluster_directory import ClusterDirectory, default_directory
from ottla.local.report_display import StartDisplay, print_report, print_report_json, shown_settings
from ottla.local.running_cluster import bring_down, look_at
from ottla.output import print_json
from ottla_operations.errors import OperationError
from ottla_operations.local_clusters.cluster_report import ClusterReport
from ottla_operations.local_clusters.disk_space import disk_space

if TYPE_CHECKING:
    from ottla.local.partition_health import PartitionHealth


def status(*, directory: Directory = None, as_json: Json = False) -> None:
    """Show a local cluster's processes, each asked for its health, and whether all partitions have leaders.

    Exits with 0 if the cluster runs, every process is ready, every partition has a leader and the disk has room, else
    with 1.

    [bold]Examples[/bold]

      ottla status

      ottla status --dir /tmp/try --json
    """
    report = _look_at(directory)
    partitions = _partitions(report.bootstrap) if report.state == "running" else None
    disk = disk_space(Path(report.directory))
    if as_json:
        print_json(
            {
                **report.to_document(),
                "settings": shown_settings(report),
                "partitions": None if partitions is None else partitions.to_document(),
                "disk": None if disk is None else disk.to_document(),
            }
        )
    else:
        print_report(report, partitions, disk)
    if partitions is None or any(process.state != "ready" for process in report.processes):
        raise typer.Exit(1)
    if partitions.count is None or partitions.offline or (disk is not None and disk.is_full):
        raise typer.Exit(1)


def down(*, directory: Directory = None, as_json: Json = False) -> None:
    """Stop a local cluster cleanly, and return when all its processes have gone. Data is kept.

    [bold]Examples[/bold]

      ottla down

      ottla down --dir /tmp/try
    """
    report = _look_at(directory)
    was_running = report.state in ("starting", "running", "stopping")
    with StartDisplay("stopping…"):
        bring_down(report)
    after = _look_at(directory)
    if as_json:
        print_report_json(after)
    else:
        print("stopped" if was_running else "it was not running")


def _partitions(bootstrap: str) -> "PartitionHealth":
    from ottla.local.partition_health import partition_health  # noqa: PLC0415 - needs Kafka's whole protocol

    return partition_health(bootstrap)


def _look_at(directory: Path | None) -> ClusterReport:
    found = ClusterDirectory(directory or default_directory())
    report = look_at(found)
    if report is None:
        raise OperationError(
            f"there is no cluster in {found.path}; start one with `ottla up`, or name another with --dir"
        )
    return report
