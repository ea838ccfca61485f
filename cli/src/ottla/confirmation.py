"""Asking before something is lost, and what is done where there is no terminal to ask at.

A command that is told by name what to delete goes on there, so that a script does what it says. A command that finds
out by itself what is lost, or whose effect no other command takes back, needs `--yes` there.
"""

import sys
from typing import Annotated

import typer

from ottla_operations.errors import OperationError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def ask_at_terminal(question: str, *, yes: bool) -> None:
    """Ask at a terminal, unless `--yes` was given; elsewhere go on.

    Raises:
        typer.Abort: the answer is no.
    """
    if not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True, err=True)


def ask_or_refuse(question: str, *, yes: bool, refusal: str) -> None:
    """Ask at a terminal, unless `--yes` was given; elsewhere refuse.

    Args:
        question: for a terminal.
        yes: whether `--yes` was given.
        refusal: what was not done, such as ``nothing was promoted``.

    Raises:
        typer.Abort: the answer is no.
        OperationError: there is no terminal.
    """
    if not yes and not sys.stdin.isatty():
        raise OperationError(f"{refusal}, as there is no terminal to ask at; --yes goes on without asking")
    ask_at_terminal(question, yes=yes)
