"""Groups whose commands are imported when they are carried out, and help that imports none of them.

Help is plain text, as wide as the terminal up to `HELP_WIDTH_MAX`, and cuts no name: what does not fit beside its
explanation stands on a line of its own. Docstrings keep their line breaks in indented lines, such as examples.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, cast

import typer
from typer.core import TyperCommand, TyperGroup

from ottla import plugin_commands
from ottla_operations.errors import UsageProblem

HELP_WIDTH_MAX = 100
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH_MAX}
MARKUP = ("[bold]", "[/bold]")
INDENT = "  "
MAY_BE_BYTES = frozenset({"headers", "key_separator", "null_text"})
"""Parameters that become bytes of records, just as they were typed."""
PATHS = frozenset({"path", "file", "directory"})
"""Types of parameters that name files, as whatever bytes they have."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is not imported yet.

    Attributes:
        function: its module below `ottla.commands` and the function in it, as ``module:function``.
        summary: the first sentence of the function's docstring.
    """

    function: str
    summary: str


@dataclass(frozen=True, slots=True)
class Group:
    """Commands below one name.

    Attributes:
        summary: what they are for.
        commands: in the order in which help shows them.
    """

    summary: str
    commands: "Mapping[str, Command | Group]"


class PlainHelpCommand(TyperCommand):
    """A command with plain help, whose arguments are text."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read what was typed.

        Raises:
            UsageProblem: it has bytes that are no text, which confluent-kafka ends the process for.
        """
        rest = super().parse_args(ctx, args)
        for parameter in self.params:
            if parameter.name in MAY_BE_BYTES or parameter.type.name in PATHS:
                continue
            values = ctx.params.get(parameter.name)
            for value in values if isinstance(values, list | tuple) else (values,):
                if isinstance(value, str) and not is_text(value):
                    name = (
                        parameter.opts[0] if parameter.param_type_name == "option" else parameter.human_readable_name
                    )
                    raise UsageProblem(f"{name} has bytes that are no text")  # which may be a secret
        return rest

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the docstring, its paragraphs wrapped."""
        write_help_text(self.help or "", formatter)


class LazyGroup(TyperGroup):
    """Commands of a `Group`, each made when it is asked for.

    Attributes:
        tree: its commands.
        has_plugins: whether commands of other distributions belong to it, too.
    """

    tree: Group = Group("", {})
    has_plugins: ClassVar[bool] = False

    @classmethod
    def of(cls, name: str, tree: Group) -> "LazyGroup":
        """Return a group below another one."""
        group = cls(
            name=name,
            help=tree.summary,
            no_args_is_help=True,
            context_settings=CONTEXT_SETTINGS,
            rich_markup_mode=None,
        )
        group.tree = tree
        return group

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*self.tree.commands, *(plugin_commands.names() if self.has_plugins else ())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None if there is none of this name.

        Raises:
            OperationError: it is one of a distribution that is not installed.
        """
        node = self.tree.commands.get(cmd_name)
        if node is None:
            return plugin_commands.command(cmd_name) if self.has_plugins else None
        return LazyGroup.of(cmd_name, node) if isinstance(node, Group) else _command(cmd_name, node)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was typed; suggestions come from the names, without importing anything."""
        names = () if args[0] in self.tree.commands else self.list_commands(ctx)
        self.commands = cast("Any", dict.fromkeys(names))
        return super().resolve_command(ctx, args)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the commands are for."""
        write_help_text(self.help or "", formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names with their summaries."""
        rows = [(name, self.summary(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return names that begin like what was typed."""
        from typer._click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell asks for this

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self.summary(name)) for name in names]
        return [*found, *super(TyperGroup, self).shell_complete(ctx, incomplete)]

    def summary(self, name: str) -> str:
        """Return what a command is for, in a sentence."""
        node = self.tree.commands.get(name)
        return plugin_commands.summary(name) if node is None else node.summary


def made_command(name: str, add: Callable[[typer.Typer], object]) -> Any:
    """Return the one command that `add` adds to an app."""
    app = typer.Typer(rich_markup_mode=None, context_settings=CONTEXT_SETTINGS, add_completion=False)
    add(app)
    for each in app.registered_commands:
        each.cls = PlainHelpCommand if each.cls is TyperCommand else each.cls
        each.context_settings = each.context_settings or CONTEXT_SETTINGS
    command = typer.main.get_command(app)
    command.name = name
    return command


def write_help_text(text: str, formatter: Any) -> None:
    """Write paragraphs wrapped, and blocks of indented lines as they are, without lines between them."""
    for mark in MARKUP:
        text = text.replace(mark, "")
    former = ""
    for paragraph in text.strip("\n").split("\n\n"):
        is_block = paragraph.startswith(INDENT)
        if not (is_block and former.startswith(INDENT)):
            formatter.write_paragraph()
        with formatter.indentation():
            if is_block:
                formatter.write(
                    "".join(f"{INDENT}{line.removeprefix(INDENT * 2)}\n" for line in paragraph.split("\n"))
                )
            else:
                formatter.write_text(paragraph)
        former = paragraph


def is_text(value: str) -> bool:
    """Return whether what was typed is valid in its encoding; Python keeps other bytes as surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def _command(name: str, node: Command) -> Any:
    module, _, function = node.function.partition(":")
    callback = getattr(import_module(f"ottla.commands.{module}"), function)
    return made_command(name, lambda app: app.command(name)(callback))
