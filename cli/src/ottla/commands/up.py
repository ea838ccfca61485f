"""`ottla up`: start a local cluster of real processes."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from ottla.commands.local_options import (
    BasePort,
    Brokers,
    Connect,
    ConnectPort,
    Console,
    ConsolePort,
    Controllers,
    Coordinators,
    Detach,
    Directory,
    Etcd,
    EtcdNodes,
    Force,
    Mirror,
    MirrorPort,
    Racks,
    Secure,
    Settings,
    Unset,
)
from ottla.kafka_client import Json
from ottla.local.report_display import StartDisplay, print_report, print_report_json
from ottla.output import note
from ottla_operations.errors import UsageProblem

if TYPE_CHECKING:
    import asyncio

    from ottla.local.launch_options import LaunchOptions
    from ottla.local.settings import Setting
    from ottla.local.supervisor import StopSignal
    from ottla_operations.local_clusters.cluster_report import ClusterReport

EXIT_INTERRUPTED = 130


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
    mirror: Mirror = None,
    mirror_port: MirrorPort = None,
    console: Console = None,
    console_port: ConsolePort = None,
    etcd: Etcd = None,
    settings: Settings = None,
    unset: Unset = None,
    force: Force = False,
    secure: Secure = False,
    detach: Detach = False,
    as_json: Json = False,
) -> None:
    """Start a local cluster: etcd, controllers, group coordinators, brokers, Connect and mirror workers as processes.

    Without --detach it runs until Ctrl-C. What was published is kept: starting again in the same directory goes
    on with it, with as many processes, the same ports and settings as before, unless you say otherwise.

    [bold]Examples[/bold]

      ottla up                                       one broker on 127.0.0.1:9092

      ottla up --detach --brokers 3 --json           three brokers, for a script

      ottla up --dir /tmp/try --base-port 0          elsewhere, on free ports

      ottla up --brokers 3 --controllers 3 --coordinators 2 --etcd-nodes 3 --racks a,b,c

      ottla up --connect 2 --mirror 1                with two Connect workers, and a mirror worker

      ottla up --console                             with the console, on http://127.0.0.1:8086

      ottla up --set broker:log.retention.hours=1    with a broker setting

      ottla up --secure                              with certificates everywhere, and a file for clients

      ottla up --etcd http://10.0.0.5:2379           with an etcd that runs already
    """  # fmt: skip
    # The supervisor is not needed to show help.
    from ottla.local.cluster_directory import default_directory  # noqa: PLC0415
    from ottla.local.launch_options import LaunchOptions  # noqa: PLC0415

    launch_options = LaunchOptions(
        directory=(directory or default_directory()).absolute(),
        brokers=brokers,
        controllers=controllers,
        coordinators=coordinators,
        base_port=base_port,
        etcd_endpoints=_parts(etcd),
        settings=_parse_settings(settings or ()),
        unset=tuple(unset or ()),
        etcd_nodes=etcd_nodes,
        racks=_parse_racks(racks),
        connect=connect,
        connect_port=connect_port,
        mirror=mirror,
        mirror_port=mirror_port,
        console=console,
        console_port=console_port,
        force=force,
        secure=secure,
    )
    _launch(launch_options, detach=detach, as_json=as_json)


def _launch(launch_options: "LaunchOptions", *, detach: bool, as_json: bool) -> None:
    if launch_options.etcd_endpoints and launch_options.etcd_nodes is not None:
        raise UsageProblem("--etcd-nodes is for the etcd that is started with the cluster; with --etcd there is none")
    show = print_report_json if as_json else print_report
    run = _start_in_background if detach else _run_in_foreground
    run(launch_options, show, _brokers_before(launch_options), as_json=as_json)


def _parts(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_racks(text: str | None) -> tuple[str, ...] | None:
    parts = _parts(text)
    if text and (not parts or len(parts) != len(text.split(","))):
        raise UsageProblem(f"--racks {text}: write the racks' names with a comma between, as in a,b,c")
    return parts


def _parse_settings(texts: Sequence[str]) -> "tuple[Setting, ...]":
    from ottla.local.settings import BadSetting, parse_setting  # noqa: PLC0415

    try:
        return tuple(parse_setting(text) for text in texts)
    except BadSetting as error:
        raise UsageProblem(f"--set: {error}") from None


def _brokers_before(launch_options: "LaunchOptions") -> int | None:
    """Return with how many brokers the cluster ran the last time; None if it is new, or nobody can tell."""
    from ottla.local.cluster_directory import ClusterDirectory, UnusableDirectory  # noqa: PLC0415

    try:
        last = ClusterDirectory(launch_options.directory).read_report()
    except UnusableDirectory:
        return None  # which the start tells
    return None if last is None else last.brokers


def _start_in_background(
    launch_options: "LaunchOptions", show: Callable[["ClusterReport"], None], before: int | None, *, as_json: bool
) -> None:
    from ottla.local.detached import start_detached  # noqa: PLC0415

    with StartDisplay() as display:
        report = start_detached(launch_options, display.update)
    show(report)
    _note_partitions(report, before)
    if not as_json:
        note(f"Stop it with: ottla down --dir {report.directory}")


def _run_in_foreground(
    launch_options: "LaunchOptions", show: Callable[["ClusterReport"], None], before: int | None, *, as_json: bool
) -> None:
    from ottla.local.launch import run_cluster  # noqa: PLC0415
    from ottla.local.supervisor import StopRequested  # noqa: PLC0415

    display = StartDisplay()
    console = _ConsoleHandler(display)
    is_shown = False

    def on_change(report: "ClusterReport") -> None:
        nonlocal is_shown
        display.update(report)
        if report.state == "running" and not is_shown:
            is_shown = True
            display.close()
            show(report)
            if not as_json:
                note("Ready. Ctrl-C stops the cluster.")
            # The supervisor does not wait for what brokers answer.
            threading.Thread(target=_note_partitions, args=(report, before), daemon=True).start()

    def nothing_more(_loop: "asyncio.AbstractEventLoop", _stop: "StopSignal") -> None:
        """Signals are the only way to stop a cluster in the foreground."""

    try:
        with display:
            run_cluster(launch_options, on_change, console=console, stop_on=nothing_more)
    except StopRequested:
        raise typer.Exit(EXIT_INTERRUPTED) from None


class _ConsoleHandler(logging.Handler):
    """Shows the supervisor's messages above the spinner; where there is a spinner, only warnings.

    Errors are left out: they end the command, which prints them itself.
    """

    def __init__(self, display: StartDisplay) -> None:
        super().__init__(logging.WARNING if display.is_terminal else logging.INFO)
        self._display = display
        self.addFilter(lambda record: record.levelno < logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        self._display.say(self.format(record))


def _note_partitions(report: "ClusterReport", before: int | None) -> None:
    """Tell of partitions that cannot be used although everything is ready, or that should have more replicas now."""
    from ottla.local.start_check import problem_after_start  # noqa: PLC0415

    has_grown = before is not None and report.brokers > before
    problem = problem_after_start(report.bootstrap, report.directory, has_grown=has_grown)
    if problem is not None:
        note(f"ottla: {problem}")
