"""Commands that come in other distributions, such as `ottla sql` in `ottla-spark`.

A distribution declares an entry point in the group `ottla.commands`: its name is the command's, its module has a
function `register(app: typer.Typer)` that adds the command. It is imported only when the command, or the list of all
commands, is asked for, so that no other command gets slower.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ottla.errors import CommandError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ottla.commands"
KNOWN = {"sql": "ottla-spark"}
"""Commands of our own distributions, by name: what to install when one is not there."""


class WithPluginCommands(TyperGroup):
    """The group of all commands: its own, and those of plugins."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *sorted(_found())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None if there is none of this name.

        Raises:
            CommandError: it is one of a distribution that is not installed.
        """
        if (own := super().get_command(ctx, cmd_name)) is not None:
            return own
        if (point := _found().get(cmd_name)) is not None:
            return _command(point)
        if cmd_name in KNOWN:
            raise CommandError(f"{cmd_name!r} needs the package {KNOWN[cmd_name]}: pip install {KNOWN[cmd_name]}")
        return None


@cache
def _found() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - a command of ours needs nothing of it

    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _command(point: "EntryPoint") -> Any:
    try:
        register = point.load().register
    except Exception as error:  # noqa: BLE001 - whatever a plugin's import raises must not take other commands away
        return _broken(point.name, f"{type(error).__name__}: {error}")
    app = typer.Typer(rich_markup_mode="rich", context_settings={"help_option_names": ["-h", "--help"]})
    register(app)
    command = typer.main.get_command(app)
    command.name = point.name
    return command


def _broken(name: str, reason: str) -> TyperCommand:
    def complain(**_: object) -> None:
        raise CommandError(f"the plugin of the command {name!r} cannot be loaded: {reason}")

    return TyperCommand(name, callback=complain, help=f"[red]cannot be loaded[/red]: {reason}")
