"""Decoders: what turns pieces of a file into rows. Pure: they see bytes, never a file.

A decoder is given the bytes behind the last row that it returned, as many as there are now, and returns the complete
rows in them. With `final` it knows that nothing will follow, so an unfinished last row is a row too.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ottla_sdk import Schema


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be read.

    Attributes:
        before: how many readable rows of the same piece come before it.
        line: its line, from 1, counted from the beginning of the piece.
        message: what is wrong with it.
    """

    before: int
    line: int
    message: str


@dataclass(slots=True)
class Rows:
    """The rows of a piece of a file.

    Attributes:
        values: the readable ones.
        begins: where each of them begins, in bytes from the beginning of the piece.
        ends: where each of them ends.
        lines: how many lines of the piece end with or before each of them.
        consumed: how many bytes of the piece need not be shown again.
        consumed_lines: how many lines these are.
        bad: the rows that cannot be read.
    """

    values: list[Any] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    consumed: int = 0
    consumed_lines: int = 0
    bad: list[BadRow] = field(default_factory=list)


class Decoder(ABC):
    """Decodes one file.

    Attributes:
        schema: the schema of the values; None if they have none. Known once the first row is.
        needs_head: whether the beginning of the file must be read before any other part.
        is_whole: whether the file is one row.
    """

    schema: Schema | None = None
    needs_head = False
    is_whole = False

    @abstractmethod
    def decode(self, piece: bytes, *, final: bool, rows_max: int) -> Rows:
        """Return the next complete rows, about `rows_max` at most."""

    def take_head(self, head: bytes) -> None:
        """Learn from the beginning of the file, to go on somewhere behind it; called if `needs_head`."""
        del head


class WholeDecoder(Decoder):
    """Makes one row of all there is, once it is all there."""

    is_whole = True

    def decode(self, piece: bytes, *, final: bool, rows_max: int) -> Rows:
        """Return the file's bytes when nothing will follow; nothing for an empty file."""
        del rows_max
        if not final or not piece:
            return Rows()
        lines = piece.count(b"\n")
        return Rows([piece], [0], [len(piece)], [lines], len(piece), lines)


@dataclass(slots=True)
class Lines:
    """Lines of a piece of a file.

    Attributes:
        texts: without the ends of the lines.
        begins: where each begins, in bytes from the beginning of the piece.
        ends: where each ends.
        suspicious: whether some text may hold bytes that are not of the encoding, as lone surrogates.
    """

    texts: list[str]
    begins: list[int]
    ends: list[int]
    suspicious: bool


def split_lines(piece: bytes, *, final: bool, rows_max: int, encoding: str, errors: str) -> Lines:
    """Return the first complete lines of a piece; with `final` the last may lack its end."""
    raw = piece.split(b"\n", rows_max)
    ends = list(accumulate(len(line) + 1 for line in raw))
    if raw[-1] and final and len(raw) <= rows_max:
        ends[-1] -= 1
    else:  # what is behind the last end of a line
        raw.pop()
        ends.pop()
    texts, suspicious = _decoded(piece[: ends[-1]] if ends else b"", raw, encoding, errors)
    if b"\r" in piece:
        texts = [text.removesuffix("\r") for text in texts]
    return Lines(texts, [0, *ends[:-1]] if ends else [], ends, suspicious)


def _decoded(text: bytes, lines: list[bytes], encoding: str, errors: str) -> tuple[list[str], bool]:
    if not lines:
        return [], False
    try:
        decoded = text.decode("ascii" if text.isascii() else encoding).split("\n")
    except UnicodeDecodeError:
        decoded = []
    if len(decoded) in (len(lines), len(lines) + 1):
        return decoded[: len(lines)], False
    # Some bytes are not of the encoding, or it can hide the end of a line in a character: each line by itself.
    policy = "surrogateescape" if errors == "strict" else errors
    return [line.decode(encoding, policy) for line in lines], errors == "strict"


def has_undecodable(texts: Iterable[str]) -> bool:
    """Return whether one of the texts holds bytes that were not of the encoding, as lone surrogates."""
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        return True
    return False
