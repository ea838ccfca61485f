"""`ottla connect list`, `status`, `restart`, `pause`, `resume`, `stop`: what connectors do."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from ottla import completion
from ottla.commands.connect_definitions import ConnectorNames
from ottla.connect.connect_client import URL_DEFAULT, Url
from ottla.kafka_client import Json
from ottla.output import print_json, print_table
from ottla.sequential_actions import do_each
from ottla_operations.connect.connector_problems import (
    FAILED,
    UNASSIGNED,
    hindrance_lines,
    hindrances,
    parts_of,
    shown_state,
    total,
)
from ottla_operations.errors import UsageProblem
from ottla_operations.workers.connect_client import ConnectClient, connector_path, existing_names

ASSIGNED_WITHIN_S: Final = 4.0
"""A connector that was just created has a worker within so long: nothing is wrong with it before."""
LOOK_INTERVAL_S: Final = 0.2


def list_(*, url: Url = URL_DEFAULT, as_json: Json = False) -> None:
    """List the connectors with their states, and what keeps any from its work; exits with 1 if something does.

    [bold]Examples[/bold]

      ottla connect list

      ottla connect list --connect-url http://10.0.0.5:8083 --json
    """
    client = ConnectClient(url)

    def read() -> list[Mapping[str, Any]]:
        expanded = client.get("/connectors", expand="status")
        return [each["status"] for _, each in sorted(expanded.items()) if "status" in each]

    statuses = _when_assigned(read)
    rows = [_row(each) for each in statuses]
    if as_json:
        print_json(rows)
    else:
        print_table(
            ["connector", "type", "state", "tasks running#", "records/s#", "lag#", "worker"],
            [
                (
                    row["connector"],
                    row["type"],
                    row["state"],
                    f"{row['tasks_running']}/{row['tasks']}",
                    row["records_per_second"],
                    row["lag"],
                    row["worker"],
                )
                for row in rows
            ],
        )
        for line in hindrance_lines(statuses, time.time() * 1000):
            print(line)
    if any(map(hindrances, statuses)):
        raise typer.Exit(1)


def _when_assigned(read: Callable[[], list[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Return statuses, read again for a while where a part has no worker yet."""
    deadline_s = time.monotonic() + ASSIGNED_WITHIN_S
    while True:
        statuses = read()
        is_assigned = all(part["state"] != UNASSIGNED for each in statuses for _, part in parts_of(each))
        if is_assigned or time.monotonic() > deadline_s:
            return statuses
        time.sleep(LOOK_INTERVAL_S)


def _row(status: Mapping[str, Any]) -> dict[str, Any]:
    states = [task["state"] for task in status["tasks"]]
    found = hindrances(status)
    return {
        "connector": status["name"],
        "type": status["type"],
        "state": status["connector"]["state"],
        "tasks": len(states),
        "tasks_running": states.count("RUNNING"),
        "tasks_failed": states.count(FAILED),
        "records_per_second": total(status, "records_per_second"),
        "lag": total(status, "lag"),
        "not_working": [each.part for each in found],
        "reason": found[0].reason if found else None,
        "worker": status["connector"]["worker_id"],
    }


def status(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", autocompletion=completion.connectors, show_default="all", help="The connectors."
        ),
    ] = None,
    url: Url = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show connectors and their tasks, and what keeps any from its work; exits with 1 if something does.

    [bold]Examples[/bold]

      ottla connect status

      ottla connect status flights --json
    """
    client = ConnectClient(url)
    wanted = existing_names(client, names or ())
    documents = _when_assigned(lambda: [client.get(connector_path(name, "status")) for name in wanted])
    if as_json:
        print_json(documents)
    else:
        print_table(
            ["connector", "type", "part", "state", "records/s#", "lag#", "version", "worker"],
            [
                (
                    document["name"],
                    document["type"],
                    part,
                    shown_state(each),
                    (each.get("health") or {}).get("records_per_second"),
                    (each.get("health") or {}).get("lag"),
                    each.get("version"),
                    each["worker_id"],
                )
                for document in documents
                for part, each in parts_of(document)
            ],
        )
        for line in hindrance_lines(documents, time.time() * 1000):
            print(line)
        for document in documents:
            for part, each in parts_of(document):
                if trace := each.get("trace"):
                    print(f"{document['name']}, {part}:\n  " + trace.rstrip().replace("\n", "\n  "))
                if progress := each.get("progress"):
                    print(f"{document['name']}, {part}:", *_lines_of(progress), sep="\n  ")
    if any(map(hindrances, documents)):
        raise typer.Exit(1)


def _lines_of(progress: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield a line for each part of the outermost objects: what a job shows is short, and whose it is counts."""
    plain = {key: value for key, value in progress.items() if not isinstance(value, Mapping)}
    if plain:
        yield f"{path}: " * bool(path) + ", ".join(f"{key} {_shown(value)}" for key, value in plain.items())
    for key, value in progress.items():
        if isinstance(value, Mapping):
            yield from _lines_of(value, f"{path}.{key}" if path else key)


def _shown(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else "–" if value is None else str(value)


def restart(
    *,
    names: ConnectorNames,
    tasks: Annotated[bool, typer.Option("--tasks", help="Also their tasks.")] = False,
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Only what has failed.")] = False,
    task: Annotated[int | None, typer.Option("--task", min=0, help="This task alone.")] = None,
    url: Url = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Restart connectors: each's own process, with --tasks also its tasks, or one task alone.

    [bold]Examples[/bold]

      ottla connect restart flights --tasks --only-failed

      ottla connect restart flights --task 2
    """
    if task is not None and (tasks or only_failed):
        raise UsageProblem("--task restarts one task, whatever its state; leave out --tasks and --only-failed")
    client = ConnectClient(url)

    def restart_one(name: str) -> str:
        if task is not None:
            client.ask("POST", connector_path(name, "tasks", str(task), "restart"))
        else:
            query = {"includeTasks": str(tasks).lower(), "onlyFailed": str(only_failed).lower()}
            client.ask("POST", connector_path(name, "restart"), query=query)
        return "restarted"

    do_each(names, restart_one, "restarted", as_json=as_json)


def pause(*, names: ConnectorNames, url: Url = URL_DEFAULT, as_json: Json = False) -> None:
    """Pause connectors: their tasks keep what they have open, but do nothing.

    [bold]Examples[/bold]

      ottla connect pause flights
    """
    _put(names, url, "pause", "paused", as_json=as_json)


def resume(*, names: ConnectorNames, url: Url = URL_DEFAULT, as_json: Json = False) -> None:
    """Have connectors go on that were paused or stopped.

    [bold]Examples[/bold]

      ottla connect resume flights
    """
    _put(names, url, "resume", "resumed", as_json=as_json)


def stop(*, names: ConnectorNames, url: Url = URL_DEFAULT, as_json: Json = False) -> None:
    """Stop connectors: their tasks end, their settings and offsets stay. Only then offsets can be set.

    [bold]Examples[/bold]

      ottla connect stop flights
    """
    _put(names, url, "stop", "stopped", as_json=as_json)


def _put(names: list[str], url: str, action: str, done: str, *, as_json: bool) -> None:
    client = ConnectClient(url)

    def put_one(name: str) -> str:
        client.ask("PUT", connector_path(name, action))
        return done

    do_each(names, put_one, done, as_json=as_json)
