"""Regular expressions and replacements written for Java, as configurations of Kafka Connect have them. Pure.

Python's `re` reads nearly all of them; named groups are written differently. Replacements are `$1`, `${name}`, and a
backslash before what is meant literally.
"""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator

_NAMED_GROUP = re.compile(r"(?<!\\)((?:\\\\)*)\(\?<(?=[A-Za-z])")
_NAMED_BACKREFERENCE = re.compile(r"(?<!\\)((?:\\\\)*)\\k<([A-Za-z][A-Za-z0-9]*)>")


def compile_java(pattern: str) -> re.Pattern[str]:
    """Return a pattern that is written for Java.

    Raises:
        ValueError: Python cannot read it.
    """
    try:
        return re.compile(_NAMED_BACKREFERENCE.sub(r"\1(?P=\2)", _NAMED_GROUP.sub(r"\1(?P<", pattern)))
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None


JavaPattern = Annotated[
    re.Pattern[str], BeforeValidator(lambda value: compile_java(value) if isinstance(value, str) else value)
]
"""A setting that is a regular expression."""


def compile_replacement(pattern: re.Pattern[str], replacement: str) -> Callable[[re.Match[str]], str]:
    """Return a function from a match of the pattern to what replaces it.

    Raises:
        ValueError: the replacement names a group that there is not, or ends in the middle of something.
    """
    parts: list[str | int] = []
    at = 0
    while at < len(replacement):
        character = replacement[at]
        if character == "\\":
            if at + 1 == len(replacement):
                raise ValueError("the replacement ends with a backslash")
            parts.append(replacement[at + 1])
            at += 2
        elif character == "$":
            group, at = _group(pattern, replacement, at + 1)
            parts.append(group)
        else:
            parts.append(character)
            at += 1
    return lambda match: "".join(each if isinstance(each, str) else match[each] or "" for each in parts)


def _group(pattern: re.Pattern[str], replacement: str, at: int) -> tuple[int, int]:
    """Return the number of the group that a `$` names, and where the text goes on."""
    if found := re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(replacement, at):
        if found[1] not in pattern.groupindex:
            raise ValueError(f"the replacement uses a group {found[1]!r}, which the pattern has not")
        return pattern.groupindex[found[1]], found.end()
    end = at
    # As many digits as there are groups for: $10 is group 1 and a zero if there are less than ten.
    while end < len(replacement) and replacement[end] in "0123456789":
        if end > at and int(replacement[at : end + 1]) > pattern.groups:
            break
        end += 1
    if end == at:
        raise ValueError("a $ in the replacement must be followed by a group's number or its name in braces")
    number = int(replacement[at:end])
    if number > pattern.groups:
        raise ValueError(f"the replacement uses group {number}; the pattern has {pattern.groups}")
    return number, end
