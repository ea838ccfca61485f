"""Long requests taken apart, so that each part is handled in a moment, and their answers put together. Pure.

In most APIs every item of a list is answered on its own: a topic, a partition, a group. `parts_of` cuts such a
request into requests with at most so many items. Where one item is too long itself (a topic with thousands of
partitions), it is cut as well, and stands in several parts with a piece of its list in each; its answers become one
again. Items that say the same twice are answered once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

_LIST_NAMES: Final[dict[type[Any], tuple[str, ...]]] = {}
"""The fields that are lists, by class of messages; there are as many as there are schemas."""


@dataclass(frozen=True, slots=True)
class ItemLists:
    """Where an API's messages have the items that are answered one by one.

    Attributes:
        requested: the request's list.
        answered: the response's.
    """

    requested: str
    answered: str


def lists_in(message: type[Any], lists: tuple[ItemLists, ...]) -> ItemLists | None:
    """Return those of the lists that a class of requests has, which differ between versions."""
    names = _list_names(message)
    return next((each for each in lists if each.requested in names), None)


class Part(NamedTuple):
    """A part of a request.

    Attributes:
        message: a request of the same class.
        continues: how many levels deep its first item goes on with a list that the former part has begun.
    """

    message: Any
    continues: int = 0


def parts_of(message: Any, list_name: str, items_max: int) -> Iterator[Part]:
    """Yield the parts of a request, of at most so many items each as far as they can be cut."""
    taken: list[Any] = []
    room = items_max
    for item in dict.fromkeys(getattr(message, list_name)):
        size = _count(item)
        longest = _longest_list(item) if size > items_max else ""
        if taken and (longest or size > room):
            yield Part(replace(message, **{list_name: tuple(taken)}))
            taken, room = [], items_max
        if longest:
            for number, (piece, continues) in enumerate(parts_of(item, longest, items_max)):
                yield Part(replace(message, **{list_name: (piece,)}), continues + 1 if number else 0)
        else:
            taken.append(item)
            room -= size
    if taken:
        yield Part(replace(message, **{list_name: tuple(taken)}))


def without_repetitions(message: Any, lists: tuple[ItemLists, ...]) -> Any:
    """Return the request with items that say the same only once."""
    present = lists_in(type(message), lists)
    if present is None:
        return message
    list_name = present.requested
    items = getattr(message, list_name)
    if items is None or len(items) < 2:
        return message
    distinct = dict.fromkeys(items)
    return message if len(distinct) == len(items) else replace(message, **{list_name: tuple(distinct)})


def joined_answers(answers: Iterable[tuple[Any, int]], list_name: str) -> Any:
    """Return one response from those to the parts, each with what its part `continues`.

    An error of a whole response refuses the request as a whole.
    """
    items: list[Any] = []
    first: Any = None
    for answer, continues in answers:
        if getattr(answer, "error_code", ErrorCode.none) != ErrorCode.none:
            return answer
        first = answer if first is None else first
        following = getattr(answer, list_name)
        if continues and items and following:
            items[-1] = _joined(items[-1], following[0], continues - 1)
            following = following[1:]
        items += following
    return replace(first, **{list_name: tuple(items)})


def _joined(item: Any, following: Any, depth: int) -> Any:
    """Return the answer to an item that was cut, from the answers to two pieces."""
    lists: dict[str, tuple[Any, ...]] = {}
    for name in _list_names(type(item)):
        before, after = getattr(item, name), getattr(following, name)
        if depth and before and after:
            lists[name] = (*before[:-1], _joined(before[-1], after[0], depth - 1), *after[1:])
        else:
            lists[name] = (*(before or ()), *(after or ()))
    return replace(item, **lists)


def _count(item: Any) -> int:
    """Return how many items a message has at the ends of its lists; at least one."""
    if not is_dataclass(item):
        return 1
    lists = (getattr(item, name) or () for name in _list_names(type(item)))
    return max(1, sum(_count(each) for items in lists for each in items))


def _longest_list(item: Any) -> str:
    """Return the name of the list with the most items, or nothing if there is none to cut."""
    names = _list_names(type(item)) if is_dataclass(item) else ()
    return max(names, key=lambda name: len(getattr(item, name) or ()), default="")


def _list_names(message: type[Any]) -> tuple[str, ...]:
    names = _LIST_NAMES.get(message)
    if names is None:
        names = _LIST_NAMES[message] = tuple(f.name for f in fields(message) if "tuple" in str(f.type))
    return names
