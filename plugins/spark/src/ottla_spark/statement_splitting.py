"""SQL text as Spark's lexer sees it, as far as needed to know where statements end and which words open them.

Nothing here understands a query: that is left to Spark. A text is cut into tokens by the rules of Spark's
`SqlBaseLexer.g4` (strings with backslashes, raw strings, names in backquotes, nested comments), and statements end at
the semicolons between tokens. A compound statement (`BEGIN … END`) keeps its own semicolons.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

CONTROL_WORDS = frozenset({"IF", "WHILE", "LOOP", "REPEAT", "FOR"})
"""What may follow the END of something that is not opened by BEGIN or CASE."""

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--(?:\\\n|[^\r\n])*)
    |(?P<comment>/\*)
    |(?P<raw>[rR](?:'[^']*'|"[^"]*"))
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<name>`(?:[^`]|``)*`)
    |(?P<open>[rR]?['"`].*)
    |(?P<word>\w+)
    |(?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    """A keyword, a name or a number."""
    NAME = "name"
    """A name in backquotes."""
    STRING = "string"
    SYMBOL = "symbol"
    UNFINISHED = "unfinished"
    """A string, name or comment that the text ends within."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text that is neither space nor comment.

    Attributes:
        kind: what it is.
        text: as it stands there, with its quotes.
        start: where it begins in the text.
        end: the position behind it.
    """

    kind: Kind
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of these keywords, given in capitals."""
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        """Return whether it is this character."""
        return self.kind is Kind.SYMBOL and self.text == symbol

    @property
    def value(self) -> str:
        """What a string holds or a name is, without quotes."""
        quote = self.text[-1]
        if self.kind is Kind.NAME:
            return self.text[1:-1].replace("``", "`")
        if self.kind is not Kind.STRING:
            return self.text
        if self.text[0] in "rR":
            return self.text[2:-1]
        return re.sub(r"\\(.)", _unescaped, self.text[1:-1].replace(quote * 2, quote), flags=re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a text.

    Attributes:
        text: without the semicolon and without what stands around it.
        line: of its first word, from 1.
        ended: whether a semicolon follows; only the last one may lack it.
    """

    text: str
    line: int
    ended: bool


def statements(text: str) -> list[str]:
    """Return the statements of a text without their semicolons; nothing between two semicolons is no statement."""
    return [each.text for each in split(text)]


def split(text: str) -> list[Statement]:
    """Return the statements of a text with where they stand."""
    found: list[Statement] = []
    begun: list[Token] = []
    depth = 0
    for token, following in _with_next(tokens(text)):
        if token.is_symbol(";") and depth == 0:
            if begun:
                found.append(_statement(text, begun, ended=True))
            begun = []
            continue
        begun.append(token)
        if begun[0].is_word("BEGIN"):
            depth = max(0, depth + _nesting(token, following))
    if begun:
        found.append(_statement(text, begun, ended=False))
    return found


def is_complete(text: str) -> bool:
    """Return whether every statement of a text has its semicolon."""
    return all(each.ended for each in split(text))


def tokens(text: str) -> Iterator[Token]:
    """Yield what a text consists of; spaces and comments (hints, too) are passed over."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        assert found is not None, "the last alternative takes any character"
        group = str(found.lastgroup)
        end = found.end()
        if group == "comment":
            end = _comment_end(text, position)
            if end < 0:
                yield Token(Kind.UNFINISHED, text[position:], position, len(text))
                return
        elif group != "space":
            yield Token(_KINDS[group], found[0], position, end)
        position = end


_KINDS = {
    "raw": Kind.STRING,
    "string": Kind.STRING,
    "name": Kind.NAME,
    "open": Kind.UNFINISHED,
    "word": Kind.WORD,
    "symbol": Kind.SYMBOL,
}

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


def _unescaped(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[1])


def _comment_end(text: str, start: int) -> int:
    """Return the position behind a comment with those nested in it; -1 if it does not end."""
    depth = 0
    for mark in re.finditer(r"/\*|\*/", text[start:]):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return start + mark.end()
    return -1


def _with_next(sequence: Iterator[Token]) -> Iterator[tuple[Token, Token | None]]:
    current = next(sequence, None)
    while current is not None:
        following = next(sequence, None)
        yield current, following
        current = following


def _nesting(token: Token, following: Token | None) -> int:
    if token.is_word("BEGIN", "CASE"):
        # `END CASE` closes once, though both of its words count.
        return 1
    if token.is_word("END"):
        if following is not None and following.is_word("CASE"):
            return -2
        return 0 if following is not None and following.is_word(*CONTROL_WORDS) else -1
    return 0


def _statement(text: str, begun: list[Token], *, ended: bool) -> Statement:
    first, last = begun[0], begun[-1]
    return Statement(text[first.start : last.end], text.count("\n", 0, first.start) + 1, ended)
