"""Java's properties files: `key=value` lines with comments, continued lines and escapes. Pure."""

import re
from collections.abc import Iterator

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_KEY = re.compile(r"(?:\\.|[^=:\s\\])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_BLANKS = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    """Return what a properties file says, by the rules of `java.util.Properties.load`; a later line wins."""
    found = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None, "the key may be empty"
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None, "the separator may be empty"
        found[_unescaped(key[0])] = _unescaped(line[separator.end() :])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Return lines without comments and empty ones, those put together that a backslash continues."""
    continued = ""
    is_continuing = False
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if not is_continuing and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        is_continuing = backslashes % 2 == 1
        continued += line[:-1] if is_continuing else line
        if not is_continuing:
            yield continued
            continued = ""
    if continued:
        yield continued


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    letter = found[2] or ""
    return _LETTERS.get(letter, letter)
