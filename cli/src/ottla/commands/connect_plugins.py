"""`ottla connect plugins`, `ottla connect new-plugin`: what connectors are made of."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.connect.connect_client import URL_DEFAULT, Url
from ottla.kafka_client import Json
from ottla.output import note, print_json, print_table
from ottla_operations.errors import UsageProblem
from ottla_operations.workers.connect_client import ConnectClient, plugin_path


def plugins(
    *,
    settings: Annotated[
        str | None, typer.Option("--settings", metavar="CLASS", help="List the settings of this class instead.")
    ] = None,
    connectors_only: Annotated[
        bool, typer.Option("--connectors", help="Leave out transformations, converters and the like.")
    ] = False,
    url: Url = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """List the plugin classes that the workers have, and plugins that cannot be imported; or a class's settings.

    [bold]Examples[/bold]

      ottla connect plugins --connectors

      ottla connect plugins --settings FileSource
    """
    client = ConnectClient(url)
    if settings is not None:
        _show_settings(client, settings, as_json=as_json)
        return
    found = client.get("/connector-plugins", connectorsOnly=str(connectors_only).lower())
    if as_json:
        print_json(found)
        return
    has_errors = any("error" in each for each in found)
    print_table(
        ["class", "type", "version", *(["problem"] if has_errors else [])],
        [
            (each["class"], each["type"], each.get("version"), *([each.get("error")] if has_errors else []))
            for each in found
        ],
    )


def _show_settings(client: ConnectClient, plugin: str, *, as_json: bool) -> None:
    found = client.get(plugin_path(plugin, "config"))
    if as_json:
        print_json(found)
        return
    print_table(
        ["setting", "type", "default", "description"],
        [
            (
                each["name"],
                each["type"].lower(),
                "required" if each["required"] else each["default_value"],
                each["documentation"],
            )
            for each in found
        ],
    )


def new_plugin(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name, such as weather.")],
    directory: Annotated[
        Path, typer.Option("--dir", help="Where the project's folder is made.", show_default="the current directory")
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Write a plugin project to start from: a source, a sink, their settings, and tests that pass.

    [bold]Examples[/bold]

      ottla connect new-plugin weather

      ottla connect new-plugin weather --dir plugins
    """
    from ottla.connect.scaffold import BadPluginName, write_plugin_project  # noqa: PLC0415

    try:
        written = write_plugin_project(name, directory)
    except BadPluginName as error:
        raise UsageProblem(str(error)) from None
    if as_json:
        print_json({"plugin": name, "files": [str(path) for path in written]})
        return
    for path in written:
        print(f"wrote {path}")
    note(f"{directory / name / 'README.md'} says how to install and test it")
