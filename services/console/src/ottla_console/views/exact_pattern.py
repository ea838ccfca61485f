"""The pattern of a field in which one text, and no other, is to be typed. Pure.

Browsers read patterns with JavaScript's flag `v`, under which only characters that mean something may be escaped: one
escape too many, such as of a hyphen, and they ignore the whole pattern.
"""

import re
from typing import Final

_MEANING: Final = re.compile(r"[\^$\\.*+?()\[\]{}|/]")


def exact_pattern(text: str) -> str:
    """Return the pattern that a text alone matches."""
    return _MEANING.sub(r"\\\g<0>", text)
