"""Sets of HTTP statuses, as users write them: `408,429,500-599`. Pure."""

import re
from typing import Self

_RANGE = re.compile(r"(?P<first>[1-5]\d\d)(?:-(?P<last>[1-5]\d\d))?")


class Statuses:
    """A set of statuses."""

    def __init__(self, members: frozenset[int]) -> None:
        self._members = members

    def __contains__(self, status: int) -> bool:
        return status in self._members

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the set that a text says; none if it is empty.

        Raises:
            ValueError: it is malformed.
        """
        members: set[int] = set()
        for word in (each.strip() for each in text.split(",")):
            if not word:
                continue
            matched = _RANGE.fullmatch(word)
            if matched is None:
                raise ValueError(f"{word!r} is neither a status, such as 429, nor a range, such as 500-599")
            first = int(matched["first"])
            last = int(matched["last"] or first)
            if last < first:
                raise ValueError(f"the range {word} ends before it begins")
            members.update(range(first, last + 1))
        return cls(frozenset(members))
