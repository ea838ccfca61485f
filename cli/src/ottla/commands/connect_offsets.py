"""`ottla connect offsets`: where connectors are, and how to have them go on somewhere else."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla import completion
from ottla.confirmation import Yes, ask_at_terminal
from ottla.connect.connect_client import URL_DEFAULT, Url
from ottla.connect.offset_arguments import BadOffset, parse_offset_document, parse_sink_offsets
from ottla.kafka_client import Json
from ottla.output import print_json, print_table
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.url_redaction import without_login
from ottla_operations.workers.connect_client import ConnectClient, connector_path

ConnectorName = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=completion.connectors, help="The connector.")
]


def show(*, name: ConnectorName, url: Url = URL_DEFAULT, as_json: Json = False) -> None:
    """Show a connector's offsets: a source's own, or those of a sink's consumer group.

    [bold]Examples[/bold]

      ottla connect offsets show flights

      ottla connect offsets show flights --json
    """
    document = ConnectClient(url).get(connector_path(name, "offsets"))
    if as_json:
        print_json(document)
    else:
        offsets = sorted(document["offsets"], key=lambda each: _place(each["partition"]))
        print_table(
            ["partition", "offset"], [(_compact(each["partition"]), _compact(each["offset"])) for each in offsets]
        )


def _place(partition: dict[str, Any]) -> list[tuple[str, float, str]]:
    """Return what partitions are shown in the order of: 2 before 10."""
    return [
        (key, float(value), "") if isinstance(value, int | float) else (key, 0.0, str(value))
        for key, value in sorted(partition.items())
    ]


def set_(
    *,
    name: ConnectorName,
    offsets: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC:PARTITION=OFFSET", help="Of a sink; an offset of `none` removes it."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Offsets as `show --json` prints them; - is standard input.")
    ] = None,
    url: Url = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Set offsets of a stopped connector; partitions that are not named keep theirs.

    [bold]Examples[/bold]

      ottla connect offsets set flights-sink flights:0=1000 flights:1=none

      ottla connect offsets set flights --file offsets.json
    """
    if bool(offsets) == (file is not None):
        raise UsageProblem("say the offsets with either TOPIC:PARTITION=OFFSET arguments or --file")
    try:
        wanted = parse_sink_offsets(offsets or ()) if file is None else parse_offset_document(_text_of(file))
    except BadOffset as error:
        raise UsageProblem(str(error) if file is None else f"{file}: {error}") from None
    _report(ConnectClient(url).ask("PATCH", connector_path(name, "offsets"), {"offsets": wanted}), as_json=as_json)


def reset(
    *,
    name: ConnectorName,
    yes: Yes = False,
    url: Url = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Remove all offsets of a stopped connector: it begins anew when it is resumed. Asks first at a terminal.

    [bold]Examples[/bold]

      ottla connect offsets reset flights --yes
    """
    client = ConnectClient(url)
    ask_at_terminal(f"Have {name} begin anew at {without_login(url)}?", yes=yes)
    _report(client.ask("DELETE", connector_path(name, "offsets")), as_json=as_json)


def _report(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        print(answer["message"])


def _text_of(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise OperationError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OperationError(f"cannot read {file}: it is no UTF-8") from None


def _compact(document: dict[str, Any] | None) -> str:
    return json.dumps(document, ensure_ascii=False)
