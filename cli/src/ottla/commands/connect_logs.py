"""`ottla connect logs`: what a connector or one of its tasks has logged."""

import time
from typing import Annotated

import typer

from ottla import completion
from ottla.connect.connect_client import URL_DEFAULT, Url
from ottla.connect.log_following import new_lines
from ottla.kafka_client import Json
from ottla.output import note, print_json, write_result
from ottla_operations.errors import UsageProblem
from ottla_operations.workers.connect_client import ConnectClient, connector_path
from ottla_operations.workers.worker_client import Refused

FOLLOW_INTERVAL_S = 1.0
FOLLOWED_LINES = 1000
"""Lines looked at each time; a task that logs more between two looks has some left out."""


def logs(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=completion.connectors, help="The connector.")],
    task: Annotated[
        int | None, typer.Option("--task", "-t", min=0, help="This task's; without, the connector's own process's.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=10_000, help="How many lines at most.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is logged from now on.")] = False,
    url: Url = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the last log lines of a connector's own process, or of a task. Its worker keeps them in memory.

    [bold]Examples[/bold]

      ottla connect logs flights

      ottla connect logs flights --task 0 --lines 20 --follow
    """
    if follow and as_json:
        raise UsageProblem("--follow prints lines as they come; leave out --json")
    client = ConnectClient(url)
    asked = max(lines, FOLLOWED_LINES) if follow else lines
    document = _fetch(client, name, task, asked)
    if as_json:
        print_json(document)
        return
    _print(document["lines"][-lines:] if lines else [])
    if not document["lines"]:
        note("it has logged nothing" + ("; what a task has logged is shown by --task" if task is None else ""))
    seen = document["lines"]
    while follow:
        time.sleep(FOLLOW_INTERVAL_S)
        try:
            now = _fetch(client, name, task, asked)["lines"]
        except Refused as refusal:
            if refusal.status == 404:
                raise
            note(f"ottla: {refusal}")  # it is between two workers, or its worker restarts
            continue
        _print(new_lines(seen, now))
        seen = now


def _fetch(client: ConnectClient, name: str, task: int | None, lines: int) -> dict[str, list[str]]:
    document: dict[str, list[str]] = client.get(
        connector_path(name, "logs"), task=None if task is None else str(task), lines=str(lines)
    )
    return document


def _print(lines: list[str]) -> None:
    if lines:
        write_result("".join(f"{line}\n" for line in lines).encode(errors="backslashreplace"))
