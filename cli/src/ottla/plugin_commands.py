"""Commands that come in other distributions, such as `ottla sql` in `ottla-spark`.

A distribution declares an entry point in the group `ottla.commands`: its name is the command's, its module has a
function `register(app: typer.Typer)` that adds the command. It is imported only when the command is asked for; help,
which shows what all commands are for, knows that of our own distributions and imports the others.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from ottla_operations.errors import OperationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ottla.commands"
KNOWN = {"sql": ("ottla-spark", "Query topics as tables, at a prompt or in scripts, on Apache Spark.")}
"""Commands of our own distributions, by name: what to install when one is not there, and what it is for."""


def names() -> list[str]:
    """Return the names of all commands of plugins that are installed."""
    return sorted(_found())


def command(name: str) -> Any:
    """Return a plugin's command; None if there is none of this name.

    Raises:
        OperationError: it is one of a distribution that is not installed.
    """
    if (point := _found().get(name)) is not None:
        return _command(point)
    if name in KNOWN:
        package, _ = KNOWN[name]
        raise OperationError(f"{name!r} needs the package {package}: pip install {package}")
    return None


def summary(name: str) -> str:
    """Return what a plugin's command is for, in a sentence."""
    if name in KNOWN:
        return KNOWN[name][1]
    return str(_command(_found()[name]).get_short_help_str(limit=200))


@cache
def _found() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - a command of ours needs nothing of it

    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _command(point: "EntryPoint") -> Any:
    from ottla.lazy_commands import made_command  # noqa: PLC0415 - it imports this file
    from ottla.output import allow_rich  # noqa: PLC0415 - only for commands of plugins

    allow_rich()  # a plugin does not know what `main.program` leaves out, and may import it at any time
    try:
        register = point.load().register
    except Exception as error:  # noqa: BLE001 - whatever a plugin's import raises must not take other commands away
        return _broken(point.name, f"{type(error).__name__}: {error}")
    return made_command(point.name, register)


def _broken(name: str, reason: str) -> TyperCommand:
    def complain(**_: object) -> None:
        raise OperationError(f"the plugin of the command {name!r} cannot be loaded: {reason}")

    return TyperCommand(name, callback=complain, help=f"cannot be loaded: {reason}", rich_markup_mode=None)
