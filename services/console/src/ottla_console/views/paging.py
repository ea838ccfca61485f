"""A part of a long list, and the parts before and behind it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
PAGE_SIZE: Final = 50


@dataclass(frozen=True, slots=True)
class PageOf(Generic[Item]):
    """One page.

    Attributes:
        items: on it.
        number: of the page, from 1.
        pages: how many there are; 1 at least.
        first, last: the places of its items in the list, from 1; 0 where there are none.
        total: items in the list.
    """

    items: Sequence[Item]
    number: int
    pages: int
    first: int
    last: int
    total: int


def page_of(items: Sequence[Item], number: int, size: int = PAGE_SIZE) -> PageOf[Item]:
    """Return a page; one behind the end is the last."""
    pages = max(1, -(-len(items) // size))
    number = min(max(number, 1), pages)
    shown = items[(number - 1) * size : number * size]
    first = (number - 1) * size + 1 if shown else 0
    return PageOf(shown, number, pages, first, first + len(shown) - 1 if shown else 0, len(items))


def page_number(text: str) -> int:
    """Return the number in an address; 1 for what is none."""
    return int(text) if text.isdecimal() and len(text) < 10 else 1
