"""The tokens of .proto files."""

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from ottla_sdk import DataError

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
      | (?P<symbol>[{}\[\]()<>=;,:+./-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class Token(NamedTuple):
    """A token: its kind (string, number, name, symbol, end), its text, and where it begins."""

    kind: str
    text: str
    start: int


class Tokens:
    """The tokens of a file, one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    @property
    def next(self) -> Token:
        """The next token, which stays the next."""
        return self._tokens[self._at]

    def take(self) -> Token:
        """Return the next token and go behind it; behind the end it stays at the end."""
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def takes(self, text: str) -> bool:
        """Go behind the next token if it is this symbol or name; return whether it is."""
        if self.next.text == text and self.next.kind in ("symbol", "name"):
            self._at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Go behind this symbol or name; raises DataError if something else comes."""
        if not self.takes(text):
            self.refuse(f"expected {text!r}")

    def name(self) -> str:
        """Return the next name."""
        if self.next.kind != "name":
            self.refuse("expected a name")
        return self.take().text

    def string(self) -> str:
        """Return the next strings, put together."""
        if self.next.kind != "string":
            self.refuse("expected a string")
        parts = []
        while self.next.kind == "string":
            parts.append(_ESCAPE.sub(_unescaped, self.take().text[1:-1]))
        return "".join(parts)

    def integer(self) -> int:
        """Return the next number, with its sign."""
        is_negative = self.takes("-")
        if self.next.kind != "number":
            self.refuse("expected a number")
        text = self.take().text
        try:
            is_octal = text.startswith("0") and text.isdigit() and len(text) > 1
            number = int(text, 8 if is_octal else 0)
        except ValueError:
            self.refuse(f"{text!r} is no integer")
        return -number if is_negative else number

    def refuse(self, problem: str) -> NoReturn:
        """Raise a DataError that says where."""
        line = self.text.count("\n", 0, self.next.start) + 1
        raise DataError(f"line {line} of the Protobuf schema: {problem}, at {self.next.text[:40]!r}")


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise DataError(f"line {line} of the Protobuf schema: {text[at : at + 20]!r} is no part of the language")
        at = found.end()
        assert found.lastgroup is not None, "every alternative has a name"
        if found.lastgroup != "blank":
            yield Token(found.lastgroup, found[0], found.start())
    yield Token("end", "", at)


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    if found[2] is not None:
        return chr(int(found[2], 8))
    return _LETTERS.get(found[3], found[3])
