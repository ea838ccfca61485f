"""`ottla connect create`, `validate`, `config`, `delete`: what connectors are."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla import completion
from ottla.confirmation import Yes, ask_at_terminal
from ottla.connect.connect_client import URL_DEFAULT, Url
from ottla.connect.connector_files import (
    INITIAL_STATES,
    BadConnectorFile,
    ConnectorDescription,
    parse_connectors,
    with_changes,
)
from ottla.kafka_client import Json, parse_assignments
from ottla.output import note, print_json, print_table
from ottla.sequential_actions import do_each
from ottla.typed_secrets import warn_of_kept_secrets
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.quantities import counted
from ottla_operations.url_redaction import without_login
from ottla_operations.workers.connect_client import ConnectClient, connector_path, plugin_path
from ottla_operations.workers.worker_client import Refused

STANDARD_INPUT = "-"

Files = Annotated[
    list[str], typer.Argument(metavar="FILE", help="YAML or JSON with connectors; - is standard input.")
]
Name = Annotated[str | None, typer.Option("--name", help="The connector's name, instead of the file's.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="KEY=VALUE",
        callback=warn_of_kept_secrets,
        help="A setting, instead of the file's; repeatable.",
    ),
]
ConnectorNames = Annotated[
    list[str], typer.Argument(metavar="NAME", autocompletion=completion.connectors, help="One or more connectors.")
]


def create(
    *,
    files: Files,
    name: Name = None,
    overrides: Overrides = None,
    initial_state: Annotated[
        str | None, typer.Option(metavar="STATE", help=f"{', '.join(INITIAL_STATES)}; running by default.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Give one that is there these settings.")] = False,
    url: Url = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Create connectors from files: their settings, or what Kafka Connect's REST API takes; several may be in one.

    [bold]Examples[/bold]

      ottla connect create flights.yaml

      ottla connect create flights.json --name flights-2 -c tasks.max=4 --initial-state stopped

      ottla connect create sources.yaml sinks.yaml --replace
    """
    if initial_state is not None and initial_state.lower() not in INITIAL_STATES:
        raise UsageProblem(f"--initial-state {initial_state}: write {', '.join(INITIAL_STATES)}")
    wanted = {each.name: each for each in _read(files, name, overrides, initial_state)}
    client = ConnectClient(url)

    def create_one(connector: str) -> str:
        return _create(client, wanted[connector], replace=replace)

    do_each(list(wanted), create_one, "created", as_json=as_json)


def _create(client: ConnectClient, wanted: ConnectorDescription, *, replace: bool) -> str:
    body: dict[str, Any] = {"name": wanted.name, "config": dict(wanted.config)}
    if wanted.initial_state is not None:
        body["initial_state"] = wanted.initial_state.upper()
    try:
        client.ask("POST", "/connectors", body)
    except Refused as refusal:
        if not replace or refusal.status != 409:
            raise
        client.ask("PUT", connector_path(wanted.name, "config"), body["config"])
        return "changed"
    return "created"


def validate(
    *,
    files: Files,
    name: Name = None,
    overrides: Overrides = None,
    url: Url = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Check connectors without creating them. Shows everything that is wrong, and then exits with 1.

    [bold]Examples[/bold]

      ottla connect validate flights.yaml

      ottla connect validate flights.yaml -c tasks.max=4 --json
    """
    client = ConnectClient(url)
    connectors = _read(files, name, overrides, None)
    found = {each.name: _validate(client, each) for each in connectors}
    if as_json:
        print_json([{"connector": connector, **document} for connector, document in found.items()])
    else:
        for connector, document in found.items():
            _print_validation(connector, document)
    if any(document["error_count"] for document in found.values()):
        raise typer.Exit(1)


def _validate(client: ConnectClient, connector: ConnectorDescription) -> dict[str, Any]:
    if connector.plugin is None:
        raise OperationError(f"{connector.name} has no connector.class; `ottla connect plugins` lists what there is")
    path = plugin_path(connector.plugin, "config", "validate")
    document: dict[str, Any] = client.ask("PUT", path, {**connector.config, "name": connector.name})
    return document


def _print_validation(connector: str, document: dict[str, Any]) -> None:
    values = [each["value"] for each in document["configs"]]
    faulty = [(each["name"], each["value"], problem) for each in values for problem in each["errors"]]
    if faulty:
        print_table(["setting", "value", "problem"], faulty, title=f"{connector}: {counted(len(faulty), 'problem')}")
    else:
        print(f"{connector}: nothing is wrong with it")


def config(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=completion.connectors, help="The connector.")],
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-c",
            metavar="KEY=VALUE",
            callback=warn_of_kept_secrets,
            help="A new value; repeatable.",
        ),
    ] = None,
    removed: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="A setting to remove; repeatable.")
    ] = None,
    url: Url = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show a connector's settings, or change some of them. References to secrets are shown, not what they stand for.

    [bold]Examples[/bold]

      ottla connect config flights

      ottla connect config flights --set tasks.max=4 --unset transforms
    """
    client = ConnectClient(url)
    changes: dict[str, str | None] = dict.fromkeys(removed or ())
    changes |= parse_assignments(assignments or (), "--set")
    if changes:
        settings = client.ask("PATCH", connector_path(name, "config"), changes)["config"]
    else:
        settings = client.get(connector_path(name, "config"))
    if as_json:
        print_json(settings)
    else:
        print_table(["setting", "value"], sorted(settings.items()))


def delete(
    *,
    names: ConnectorNames,
    yes: Yes = False,
    url: Url = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Delete connectors. Their offsets stay, so one that is created under the same name goes on. Asks at a terminal.

    [bold]Examples[/bold]

      ottla connect delete flights

      ottla connect delete flights prices --yes
    """
    client = ConnectClient(url)
    ask_at_terminal(f"Delete {', '.join(names)} at {without_login(url)}?", yes=yes)

    def delete_one(name: str) -> str:
        client.ask("DELETE", connector_path(name))
        return "deleted"

    do_each(names, delete_one, "deleted", as_json=as_json)


def _read(
    files: Sequence[str], name: str | None, overrides: Sequence[str] | None, initial_state: str | None
) -> list[ConnectorDescription]:
    settings = parse_assignments(overrides or (), "--config")
    if "name" in settings:
        note("ottla: the name is given by --name; -c name=… has no effect")
    try:
        found = [connector for file in files for connector in parse_connectors(_text_of(file), file)]
        return with_changes(
            found, name=name, settings=settings, initial_state=initial_state and initial_state.lower()
        )
    except BadConnectorFile as error:
        raise OperationError(str(error)) from None


def _text_of(file: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise OperationError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OperationError(f"cannot read {file}: it is no UTF-8") from None
