"""The errors in a response, wherever its schema keeps them: of the whole, of topics, of partitions.

What is to be looked at is read off a response's class once, so that a response costs as much as the lists in it that
hold errors are long, whatever else is in it.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

ErrorsIn = Callable[[Any], Iterator[ErrorCode]]


def errors_in(response: Entity) -> Iterator[ErrorCode]:
    """Yield every error that the response tells of, one for each topic or partition that has it."""
    find = _finder(type(response))
    return iter(()) if find is None else find(response)


def outcomes_in(response: Entity) -> Iterator[ErrorCode]:
    """Yield what became of every part of a request: its error, or `none`.

    A response counts by its parts if it has any; its own code only if that is an error.
    """
    places = _places(type(response))
    if places is None:
        return
    own, nested = places
    has_parts = False
    for name, _ in nested:
        for part in _held(response, name):
            for code in outcomes_in(part):
                has_parts = True
                yield code
    for name in own:
        code = getattr(response, name)
        if code or not has_parts:
            yield code


@cache
def _places(message: type) -> tuple[tuple[str, ...], tuple[tuple[str, ErrorsIn], ...]] | None:
    """Return the fields of a class that are errors, and those whose messages have errors; None without any."""
    if not is_dataclass(message):
        return None
    hints = get_type_hints(message)
    own = tuple(field.name for field in fields(message) if ErrorCode in _types_in(hints[field.name]))
    nested = tuple(
        (field.name, found)
        for field in fields(message)
        for kind in _types_in(hints[field.name])
        if (found := _finder(kind)) is not None
    )
    return (own, nested) if own or nested else None


@cache
def _finder(message: type) -> ErrorsIn | None:
    """Return what finds the errors in messages of a class; None if they have no place for any."""
    places = _places(message)
    if places is None:
        return None
    own, nested = places

    def find(entity: Any) -> Iterator[ErrorCode]:
        for name in own:
            if code := getattr(entity, name):  # ErrorCode.none is 0
                yield code
        for name, find_in in nested:
            for each in _held(entity, name):
                yield from find_in(each)

    return find


def _held(entity: Any, name: str) -> tuple[Any, ...]:
    held = getattr(entity, name)
    return held if isinstance(held, tuple) else () if held is None else (held,)


def _types_in(hint: Any) -> Iterator[Any]:
    """Yield the types of a field, those in arrays and optional ones too."""
    parts = get_args(hint)
    if not parts:
        if isinstance(hint, type):
            yield hint
        return
    for part in parts:
        yield from _types_in(part)
