"""Asking before something is lost: at a terminal, and elsewhere."""

import io
import sys
from functools import partial
from typing import Protocol

import pytest
import typer

from ottla.confirmation import ask_at_terminal, ask_or_refuse
from ottla_operations.errors import OperationError


class Terminal(io.StringIO):
    """Standard input at which somebody types an answer."""

    def isatty(self) -> bool:
        return True


class Ask(Protocol):
    """Either way of asking."""

    def __call__(self, question: str, *, yes: bool) -> None: ...


def type_in(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))


@pytest.mark.parametrize("ask", [ask_at_terminal, partial(ask_or_refuse, refusal="nothing was done")])
def test_at_a_terminal_only_a_yes_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ask: Ask
) -> None:
    type_in(monkeypatch, "y\n")
    ask("Go on?", yes=False)
    type_in(monkeypatch, "n\n")
    with pytest.raises(typer.Abort):
        ask("Go on?", yes=False)
    assert "Go on?" in capsys.readouterr().err
    type_in(monkeypatch, "n\n")
    ask("Go on?", yes=True)
    assert capsys.readouterr().err == ""


def test_without_a_terminal_what_was_named_is_done_and_what_has_to_be_shown_first_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    ask_at_terminal("Delete orders?", yes=False)
    with pytest.raises(OperationError, match="nothing was promoted, as there is no terminal to ask at; --yes"):
        ask_or_refuse("Promote?", yes=False, refusal="nothing was promoted")
    ask_or_refuse("Promote?", yes=True, refusal="nothing was promoted")
