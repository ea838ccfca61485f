"""How a local cluster is shown: its processes as a table or as JSON, and what is still starting."""

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.output import note, note_console, print_json, print_table

if TYPE_CHECKING:
    from ottla.local.partition_health import PartitionHealth
    from ottla_operations.local_clusters.cluster_report import ClusterReport
    from ottla_operations.local_clusters.disk_space import DiskSpace


SILENCE_MAX_S = 5.0
"""Where no terminal is, a line says so often what a start waits for."""


class StartDisplay:
    """A spinner that says what is still starting; where no terminal is, a line every few seconds.

    Attributes:
        is_terminal: whether there is one.
    """

    def __init__(self, text: str = "starting…") -> None:
        self.is_terminal = sys.stderr.isatty()
        self._console = note_console() if self.is_terminal else None
        self._status = self._console.status(text) if self._console is not None else None
        self._waiting = ""
        self._is_closed = threading.Event()

    def __enter__(self) -> "StartDisplay":
        if self._status is not None:
            self._status.start()
        else:
            threading.Thread(target=self._break_silence, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the spinner away."""
        self._is_closed.set()
        if self._status is not None:
            self._status.stop()

    def say(self, message: str) -> None:
        """Print a message above the spinner."""
        if self._console is None:
            note(message)
        else:
            self._console.print(message, markup=False)

    def update(self, report: "ClusterReport") -> None:
        """Show what is not ready yet."""
        waiting = [process.name for process in report.processes if process.state != "ready"]
        self._waiting = f"{report.state}: waiting for {', '.join(waiting)}" if waiting else ""
        if self._status is not None and waiting:
            self._status.update(self._waiting)

    def _break_silence(self) -> None:
        while not self._is_closed.wait(SILENCE_MAX_S):
            if self._waiting:
                note(self._waiting)


def shown_settings(report: "ClusterReport") -> list[str]:
    """Return what `--set` said, secrets hidden; nothing where it cannot be read."""
    from ottla.local.cluster_directory import ClusterDirectory, UnusableDirectory  # noqa: PLC0415
    from ottla.local.settings import BadSetting, parse_setting  # noqa: PLC0415

    try:
        return [parse_setting(text).shown for text in ClusterDirectory(Path(report.directory)).read_settings()]
    except (BadSetting, UnusableDirectory):
        return []


def print_report_json(report: "ClusterReport") -> None:
    """Print it for programs."""
    print_json({**report.to_document(), "settings": shown_settings(report)})


def print_report(
    report: "ClusterReport", partitions: "PartitionHealth | None" = None, disk: "DiskSpace | None" = None
) -> None:
    """Print it for people."""
    print_table(
        ["process", "state", "pid#", "address", "restarts#", "log"],
        [
            (
                each.name,
                each.state,
                each.pid,
                each.address,
                each.restarts or None,
                each.log.removeprefix(f"{report.directory}/"),
            )
            for each in report.processes
        ],
    )
    print(f"state      {report.state}\nbootstrap  {report.bootstrap}")
    if report.client_config:
        print(f"clients    {report.client_config}")
    if report.rest_config and (report.connect or report.mirror):
        print(f"workers    {report.rest_config}")
    if report.connect:
        print(f"connect    {','.join(report.connect)}")
    if report.mirror:
        print(f"mirror     {','.join(report.mirror)}")
    if report.console:
        print(f"console    {','.join(report.console)}")
    for setting in shown_settings(report):
        print(f"setting    {setting}")
    if partitions is not None:
        print(f"partitions {partitions.line()}")
    if disk is not None:
        print(f"disk       {disk.line()}")
    print(f"directory  {report.directory}", flush=True)
