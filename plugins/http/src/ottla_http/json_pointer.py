"""JSON pointers (RFC 6901), such as `/data/items` or `/links/0/href`. Pure."""

import re
from typing import Any

_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]*")

MISSING = object()
"""What a pointer finds where there is nothing."""


class JsonPointer:
    """A place in a JSON document."""

    def __init__(self, text: str) -> None:
        """Parse a pointer; an empty one is the whole document.

        Raises:
            ValueError: it is malformed.
        """
        if text and not text.startswith("/"):
            raise ValueError("a JSON pointer is empty or begins with /, such as /data/items")
        if _ESCAPE.search(text):
            raise ValueError("in a JSON pointer, ~ is written ~0, and / in a name ~1")
        self._text = text
        self._steps = [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]

    def __str__(self) -> str:
        return self._text or "(the whole document)"

    def find(self, document: Any) -> Any:
        """Return what is there; `MISSING` if there is nothing."""
        place = document
        for step in self._steps:
            if isinstance(place, dict) and step in place:
                place = place[step]
            elif isinstance(place, list) and _INDEX.fullmatch(step) and int(step) < len(place):
                place = place[int(step)]
            else:
                return MISSING
        return place
