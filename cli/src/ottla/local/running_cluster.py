"""Looking at a cluster from outside, and ending it: `ottla status` and `ottla down`.

Both trust the state file only as far as the kernel confirms it: a process counts as there if the process with that id
also started when the file says.
"""

import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ottla.local.cluster_directory import ClusterDirectory, UnusableDirectory
from ottla_operations.errors import OperationError
from ottla_operations.local_clusters.cluster_report import ClusterReport, ProcessReport
from ottla_operations.local_clusters.process_identity import ProcessIdentity, is_alive, send_signal

STOP_DEADLINE_S = 90.0
POLL_INTERVAL_S = 0.02


def look_at(directory: ClusterDirectory) -> ClusterReport | None:
    """Return the cluster as it is now, each running process asked for its health; None if there never was one.

    Raises:
        OperationError: the state file cannot be read.
    """
    try:
        report = directory.read_report()
    except UnusableDirectory as error:
        raise OperationError(str(error)) from None
    if report is None:
        return None
    if is_alive(report.supervisor):
        from ottla.local.liveness import ask_all  # noqa: PLC0415 - where nothing runs there is nothing to ask
        from ottla.local.secure_plan import administrator_tls  # noqa: PLC0415

        tls = administrator_tls(Path(report.directory)) if report.is_secure else None
        return replace(report, processes=ask_all(report.processes, tls))
    ended = report.state if report.state in ("stopped", "failed") else "lost"
    return replace(report, state=ended, processes=tuple(_without_supervisor(each) for each in report.processes))


def bring_down(report: ClusterReport) -> None:
    """Stop a cluster and return when its supervisor and every process have gone.

    Raises:
        OperationError: something does not end.
    """
    from ottla.local.launch import end_now  # noqa: PLC0415 - the supervisor's imports, to look at none

    deadline = time.monotonic() + STOP_DEADLINE_S
    send_signal(report.supervisor, signal.SIGTERM)
    while is_alive(report.supervisor):
        if time.monotonic() > deadline:
            end_now([report.supervisor])
        time.sleep(POLL_INTERVAL_S)
    end_now(_identities(report.processes))


def _identities(processes: Sequence[ProcessReport]) -> list[ProcessIdentity]:
    return [each.identity for each in processes if each.identity is not None]


def _without_supervisor(process: ProcessReport) -> ProcessReport:
    if process.identity is not None and is_alive(process.identity):
        return replace(process, state="lost")
    return replace(process, pid=None, start=None, state="failed" if process.state == "failed" else "stopped")
