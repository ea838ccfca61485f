"""Keeps what config providers resolved out of logs, error messages and answers to the worker. Pure."""

import io
import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

HIDDEN = "[hidden]"
LENGTH_MIN = 4
"""Shorter values are in every other word; hiding them would hide nothing but the message."""
LINE_LENGTH_MIN = 16
"""Lines of a longer secret, such as a key in PEM; shorter ones, such as a brace, are in other texts too."""


class Redaction:
    """Puts the references back in place of the values that they stand for."""

    def __init__(self) -> None:
        self._by_value: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def add(self, references: Mapping[str, str]) -> None:
        """Learn references and their values, such as `{"${env:PASSWORD}": "secret"}`."""
        for reference, value in references.items():
            for form in _forms(value):
                if len(form) >= LENGTH_MIN:
                    self._by_value[form] = reference
        longest_first = sorted(self._by_value, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Return a text without the values."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._by_value[match[0]], text)

    def document(self, document: Any) -> Any:
        """Return what JSON can hold without the values in any of its texts."""
        if isinstance(document, str):
            return self.text(document)
        if isinstance(document, list):
            return [self.document(each) for each in document]
        if isinstance(document, dict):
            return {self.text(key): self.document(value) for key, value in document.items()}
        return document


class RedactedStream(io.TextIOWrapper):
    """A text stream behind a redaction: what plugins print, and Python itself does of errors in their threads."""

    def __init__(self, stream: TextIO, redaction: Redaction) -> None:
        super().__init__(stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=True)
        self._stream = stream  # its end would close the buffer
        self._redaction = redaction

    def write(self, text: str, /) -> int:
        """Write a text without the values."""
        super().write(self._redaction.text(text))
        return len(text)


def _forms(value: str) -> Iterator[str]:
    """Return how a value may stand in messages: as it is, quoted in Python or JSON, in a URL, line by line."""
    yield value
    yield repr(value)[1:-1]
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield urllib.parse.quote(value)
    yield urllib.parse.quote(value, safe="")
    yield urllib.parse.quote_plus(value)
    yield from (each for each in value.splitlines() if len(each) >= LINE_LENGTH_MIN)
