"""Keeps what config providers resolved out of logs, error messages and answers to the worker."""

import re
from collections.abc import Mapping

HIDDEN = "[hidden]"
LENGTH_MIN = 4
"""Shorter values are in every other word; hiding them would hide nothing but the message."""


class Redaction:
    """Puts the references back in place of the values that they stand for."""

    def __init__(self) -> None:
        self._by_value: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def add(self, references: Mapping[str, str]) -> None:
        """Learn references and their values, such as `{"${env:PASSWORD}": "secret"}`."""
        for reference, value in references.items():
            if len(value) >= LENGTH_MIN:
                self._by_value[value] = reference
        longest_first = sorted(self._by_value, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Return a text without the values."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._by_value[match[0]], text)
