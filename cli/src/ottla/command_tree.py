"""The tree of commands: every group and command that `ottla` has, in the order in which help shows them.

A command's module is imported when the command, or the list of all commands, is asked for: `ottla up` stays in memory
as long as its cluster runs, and needs nothing of what the others need.
"""

from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ottla.plugin_commands import WithPluginCommands
from ottla.profiles.chosen import PROFILE_VARIABLE, choose_profile

_MODULE_EACH = ("produce", "consume", "topic", "config", "group", "connect", "cluster", "log", "bench", "profile")
MODULES = {
    **dict.fromkeys(("up", "status", "down"), "local_cluster"),
    **{name: name for name in _MODULE_EACH},
}
"""By command: its module in `ottla.commands`, which has either a group `app` or a function `register(app)`."""

WITHOUT_PROFILE = frozenset({"up", "down", "status", "log", "profile"})
"""Commands that are about this machine, whatever profile is in use, and those that mend profiles."""

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}


class AllCommands(WithPluginCommands):
    """The group of all commands: those of `MODULES`, and those of plugins."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command's name; --profile may also stand behind it."""
        return super().parse_args(ctx, _profile_first(args))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*MODULES, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None if there is none of this name."""
        if cmd_name in MODULES:
            return _group(MODULES[cmd_name]).get_command(ctx, cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was typed; if there is none of this name, suggestions come from `commands`."""
        if args and self.get_command(ctx, args[0]) is None:
            self.commands = {name: self.get_command(ctx, name) for name in MODULES}
        return super().resolve_command(ctx, args)


def _profile_first(arguments: list[str]) -> list[str]:
    """Return the arguments with --profile, which all commands have, in front of the command's name."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for position, argument in enumerate(arguments[:end]):
        if argument == "--profile" or argument.startswith("--profile="):
            count = 2 if argument == "--profile" else 1
            taken = arguments[position : position + count]
            return [*taken, *arguments[:position], *arguments[position + count :]]
    return arguments


@cache
def _group(module_name: str) -> TyperGroup:
    """Return a module's commands as a group of their own."""
    module = import_module(f"ottla.commands.{module_name}")
    commands = typer.Typer(rich_markup_mode="rich", context_settings=CONTEXT_SETTINGS)
    if hasattr(module, "register"):
        module.register(commands)
    else:
        commands.add_typer(module.app, name=module_name)
    return typer.main.get_group(commands)


app = typer.Typer(
    name="ottla",
    cls=AllCommands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings=CONTEXT_SETTINGS,
    help="Ottla: a streaming platform that speaks the Kafka protocol.\n\n"
    "Start a cluster with [bold]ottla up[/bold], then use it with any Kafka client or with the commands below. "
    "Every command explains itself: [bold]ottla COMMAND --help[/bold].",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        print(f"ottla {version('ottla')}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", envvar=PROFILE_VARIABLE, metavar="NAME", help="Use this profile; see `ottla profile`."
        ),
    ] = None,
) -> None:
    if ctx.invoked_subcommand not in WITHOUT_PROFILE:
        choose_profile(profile)
