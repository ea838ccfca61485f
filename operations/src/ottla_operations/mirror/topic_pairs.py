"""Which topics of two clusters belong together: by patterns, and by the name that a topic has at the target. Pure.

Names are those of MirrorMaker 2's policies: the source's own (`IdentityReplicationPolicy`), or, with an alias of the
source, the alias in front of it (`DefaultReplicationPolicy`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_INTERNAL: Final = re.compile(r"__.*|.*[.-]internal|mm2-.*|.*\.replica|heartbeats|.*\.heartbeats")
"""Topics that MirrorMaker 2 leaves out, and those that are its own."""


class BadPattern(ValueError):
    """A pattern that is no regular expression; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How a topic of the source is called at the target.

    Attributes:
        alias: what stands before its name; None if it keeps its own.
        separator: what stands between them.
    """

    alias: str | None = None
    separator: str = "."

    def target_name(self, topic: str) -> str:
        """Return the topic's name at the target."""
        return topic if self.alias is None else f"{self.alias}{self.separator}{topic}"


def chosen_topics(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the topics that fully match one of some regular expressions, or all that are not internal.

    Raises:
        BadPattern: one is no regular expression.
    """
    if not patterns:
        return sorted(name for name in names if not _INTERNAL.fullmatch(name))
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise BadPattern(f"{pattern}: {error}") from None
    return sorted(name for name in names if any(each.fullmatch(name) for each in compiled))
