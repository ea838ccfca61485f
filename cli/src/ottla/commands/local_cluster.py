"""`ottla up`, `ottla status`, `ottla down`: a local cluster of real processes."""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from ottla.commands.local_options import (
    BasePort,
    Brokers,
    Connect,
    ConnectPort,
    Controllers,
    Coordinators,
    Detach,
    Directory,
    Etcd,
    EtcdNodes,
    Racks,
    Settings,
)
from ottla.errors import CommandError, UsageProblem
from ottla.kafka_client import Json
from ottla.local.cluster_directory import ClusterDirectory, default_directory
from ottla.local.cluster_report import ClusterReport
from ottla.local.detached import start_detached
from ottla.local.launch import Wish, run_cluster
from ottla.local.settings import BadSetting, Setting, parse_setting
from ottla.local.shutdown import bring_down, look_at
from ottla.local.start_check import problem_after_start
from ottla.local.supervisor import StopRequested, StopSignal
from ottla.output import note, note_console, print_json, print_table

if TYPE_CHECKING:
    from ottla.local.partition_health import PartitionHealth

EXIT_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the commands to the top level."""
    app.command("up")(up)
    app.command("status")(status)
    app.command("down")(down)


def up(
    *,
    directory: Directory = None,
    brokers: Brokers = None,
    controllers: Controllers = None,
    coordinators: Coordinators = None,
    etcd_nodes: EtcdNodes = None,
    racks: Racks = None,
    base_port: BasePort = None,
    connect: Connect = None,
    connect_port: ConnectPort = None,
    etcd: Etcd = None,
    settings: Settings = None,
    detach: Detach = False,
    as_json: Json = False,
) -> None:
    """Start a local cluster: etcd, controllers, group coordinators, brokers and Connect workers, each a process.

    Without --detach it runs until Ctrl-C. What was published is kept: starting again in the same directory goes
    on with it, with as many processes and on the same ports as before, unless you say otherwise.

    [bold]Examples[/bold]

      ottla up                                       one broker on 127.0.0.1:9092

      ottla up --detach --brokers 3 --json           three brokers, for a script

      ottla up --dir /tmp/try --base-port 0          elsewhere, on free ports

      ottla up --brokers 3 --controllers 3 --coordinators 2 --etcd-nodes 3 --racks a,b,c

      ottla up --connect 2                           with two Connect workers, on 127.0.0.1:8083 and 8084

      ottla up --set broker:log.retention.hours=1    with a broker setting

      ottla up --etcd http://10.0.0.5:2379           with an etcd that runs already
    """  # fmt: skip
    wish = Wish(
        directory=(directory or default_directory()).absolute(),
        brokers=brokers,
        controllers=controllers,
        coordinators=coordinators,
        base_port=base_port,
        etcd_endpoints=_parts(etcd),
        settings=_parse_settings(settings or ()),
        etcd_nodes=etcd_nodes,
        racks=_parse_racks(racks),
        connect=connect,
        connect_port=connect_port,
    )
    if wish.etcd_endpoints and etcd_nodes is not None:
        raise UsageProblem("--etcd-nodes is for the etcd that is started with the cluster; with --etcd there is none")
    show = _print_report_json if as_json else _print_report
    if not detach:
        _run_in_foreground(wish, show, as_json=as_json)
        return
    with _StartDisplay() as display:
        report = start_detached(wish, display.update)
    show(report)
    _note_partitions(report.bootstrap)
    if not as_json:
        note(f"Stop it with: ottla down --dir {report.directory}")


def _parts(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_racks(text: str | None) -> tuple[str, ...] | None:
    parts = _parts(text)
    if text and (not parts or len(parts) != len(text.split(","))):
        raise UsageProblem(f"--racks {text}: write the racks' names with a comma between, as in a,b,c")
    return parts


def _parse_settings(texts: Sequence[str]) -> tuple[Setting, ...]:
    try:
        return tuple(parse_setting(text) for text in texts)
    except BadSetting as error:
        raise UsageProblem(f"--set: {error}") from None


def status(*, directory: Directory = None, as_json: Json = False) -> None:
    """Show a local cluster's processes, each asked for its health, and whether all partitions have leaders.

    Exits with 0 if the cluster runs, every process is ready and every partition has a leader, else with 1.

    [bold]Examples[/bold]

      ottla status

      ottla status --dir /tmp/try --json
    """
    from ottla.local.partition_health import partition_health  # noqa: PLC0415 - a supervisor has no use for it

    report = _look_at(directory)
    partitions = partition_health(report.bootstrap) if report.state == "running" else None
    if as_json:
        print_json({**report.to_document(), "partitions": None if partitions is None else partitions.to_document()})
    else:
        _print_report(report, partitions)
    if partitions is None or any(process.state != "ready" for process in report.processes):
        raise typer.Exit(1)
    if partitions.count is None or partitions.offline:
        raise typer.Exit(1)


def down(*, directory: Directory = None, as_json: Json = False) -> None:
    """Stop a local cluster cleanly, and return when all its processes have gone. Data is kept.

    [bold]Examples[/bold]

      ottla down

      ottla down --dir /tmp/try
    """
    report = _look_at(directory)
    was_running = report.state in ("starting", "running", "stopping")
    with note_console().status("stopping…") if sys.stderr.isatty() else _StartDisplay():
        bring_down(report)
    after = _look_at(directory)
    if as_json:
        _print_report_json(after)
    else:
        print("stopped" if was_running else "it was not running")


def _look_at(directory: Path | None) -> ClusterReport:
    found = ClusterDirectory(directory or default_directory())
    report = look_at(found)
    if report is None:
        raise CommandError(
            f"there is no cluster in {found.path}; start one with `ottla up`, or name another with --dir"
        )
    return report


def _run_in_foreground(wish: Wish, show: Callable[[ClusterReport], None], *, as_json: bool) -> None:
    display = _StartDisplay()
    console = _ConsoleHandler(display.console)
    is_shown = False

    def on_change(report: ClusterReport) -> None:
        nonlocal is_shown
        display.update(report)
        if report.state == "running" and not is_shown:
            is_shown = True
            display.close()
            show(report)
            if not as_json:
                note("Ready. Ctrl-C stops the cluster.")
            # The supervisor does not wait for what brokers answer.
            threading.Thread(target=_note_partitions, args=(report.bootstrap,), daemon=True).start()

    def nothing_more(_loop: asyncio.AbstractEventLoop, _stop: StopSignal) -> None:
        """Signals are the only way to stop a cluster in the foreground."""

    try:
        with display:
            run_cluster(wish, on_change, console=console, stop_on=nothing_more)
    except StopRequested:
        raise typer.Exit(EXIT_INTERRUPTED) from None


class _ConsoleHandler(logging.Handler):
    """Shows the supervisor's messages above the spinner; where there is a spinner, only warnings.

    Errors are left out: they end the command, which prints them itself.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING if console.is_terminal else logging.INFO)
        self._console = console
        self.addFilter(lambda record: record.levelno < logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        self._console.print(self.format(record), markup=False)


class _StartDisplay:
    """A spinner that says what is still starting; silent where no terminal is."""

    def __init__(self) -> None:
        self.console = note_console()
        self._status = self.console.status("starting…") if sys.stderr.isatty() else None

    def __enter__(self) -> "_StartDisplay":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the spinner away."""
        if self._status is not None:
            self._status.stop()

    def update(self, report: ClusterReport) -> None:
        """Show what is not ready yet."""
        waiting = [process.name for process in report.processes if process.state != "ready"]
        if self._status is not None and waiting:
            self._status.update(f"{report.state}: waiting for {', '.join(waiting)}")


def _print_report_json(report: ClusterReport) -> None:
    print_json(report.to_document())


def _note_partitions(bootstrap: str) -> None:
    """Tell of partitions that cannot be used although everything is ready."""
    problem = problem_after_start(bootstrap)
    if problem is not None:
        note(f"ottla: {problem}")


def _print_report(report: ClusterReport, partitions: "PartitionHealth | None" = None) -> None:
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
    if report.connect:
        print(f"connect    {','.join(report.connect)}")
    if partitions is not None:
        print(f"partitions {partitions.line()}")
    print(f"directory  {report.directory}", flush=True)
