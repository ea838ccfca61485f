"""`ottla logs`: what all processes of a local cluster have logged, in the order of time."""

import os
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla import completion
from ottla.commands.local_options import Directory
from ottla.output import write_result
from ottla_operations.errors import OperationError, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ottla.local.log_lines import LogLine

LINES_DEFAULT = 100
LINES_MAX = 1_000_000


class Level(StrEnum):
    """How grave a message is at least."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


def logs(
    *,
    processes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROCESS…",
            autocompletion=completion.logged_processes,
            show_default="all",
            help="A role: broker, controller, group-coordinator, connect or etcd; or one, as broker-1 or supervisor.",
        ),
    ] = None,
    directory: Directory = None,
    lines: Annotated[
        int | None,
        typer.Option(
            "--lines", "-n", min=0, max=LINES_MAX, show_default="100, or all --since", help="The last so many."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: a date and time, or for how long, such as 10m.")
    ] = None,
    level: Annotated[Level, typer.Option("--level", "-l", help="Only what is at least so grave.")] = Level.DEBUG,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is logged from now on.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a line each, as the services log it.")] = False,
) -> None:
    """Show the logs of a local cluster's processes, in the order of time.

    The logs stay when the cluster has stopped. Of very long ones only the end is looked at.

    [bold]Examples[/bold]

      ottla logs

      ottla logs broker --level warning --since 10m

      ottla logs connect-1 controller --follow

      ottla logs --since 2026-01-31T09:00 --json
    """
    from ottla.local.cluster_directory import ClusterDirectory, default_directory  # noqa: PLC0415
    from ottla.local.log_files import LogFile, followed, merged  # noqa: PLC0415
    from ottla.local.log_lines import is_at_least  # noqa: PLC0415

    begin = None if since is None else _begin(since)
    folder = ClusterDirectory(directory or default_directory()).logs
    chosen = _chosen(folder, processes or ())
    files = [LogFile(folder, name) for name in chosen]
    show = _shown(chosen, as_json=as_json)
    found = [
        line
        for line in merged(file.last() for file in files)
        if is_at_least(line, level) and (begin is None or line.time >= begin)
    ]
    count = lines if lines is not None else LINES_DEFAULT if begin is None else len(found)
    _print(found[len(found) - min(count, len(found)) :], show)
    if follow:
        with suppress(KeyboardInterrupt):
            for batch in followed(files):
                _print([line for line in batch if is_at_least(line, level)], show)


def _begin(text: str) -> datetime:
    from ottla_operations.groups.duration import BadDuration, parse_duration_ms  # noqa: PLC0415
    from ottla_operations.records.start_offset import parse_time_ms  # noqa: PLC0415

    time_ms = parse_time_ms(text)
    if time_ms is None:
        try:
            time_ms = int(time.time() * 1000) - parse_duration_ms(text)
        except BadDuration:
            raise UsageProblem(
                f"--since {text}: write a date and time, such as 2026-01-31T09:00, or for how long, such as 10m"
            ) from None
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def _chosen(folder: "Path", wanted: "Sequence[str]") -> list[str]:
    from ottla.local.log_files import is_chosen, processes_of  # noqa: PLC0415

    there = processes_of(folder)
    if not there:
        raise OperationError(
            f"there are no logs in {folder}; start a cluster with `ottla up`, or name one with --dir"
        )
    missing = [name for name in wanted if not any(is_chosen(process, [name]) for process in there)]
    if missing:
        raise OperationError(f"{missing[0]} has no log in {folder}; there are {', '.join(there)}")
    return [process for process in there if is_chosen(process, wanted)]


def _shown(processes: "Sequence[str]", *, as_json: bool) -> "Callable[[LogLine], str]":
    from ottla.local.log_lines import as_json as json_line  # noqa: PLC0415
    from ottla.local.log_lines import for_people, process_colours  # noqa: PLC0415

    if as_json:
        return json_line
    width = max(map(len, processes))
    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    colours = process_colours(list(processes)) if is_coloured else None
    return lambda line: for_people(line, process_width=width, colour_of=colours)


def _print(lines: "Sequence[LogLine]", show: "Callable[[LogLine], str]") -> None:
    if lines:
        write_result("".join(f"{show(line)}\n" for line in lines).encode(errors="backslashreplace"))
