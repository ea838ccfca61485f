"""What is searched for in records: a text, or what stands at a path of a JSON value. Pure.

``late`` looks for a text in keys, values and headers. ``$.delay > 60``, ``$.legs[0].from = JFK``, ``$.note ~ fog``
(holds the text) and ``$.delay`` (is there, and not null) look at one place of the value, when that is JSON.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from ottla_operations.records.record_line import Record

TEXT_MAX: Final = 1_000
PATH: Final = re.compile(r"\$((?:\.[^\s.\[\]=!<>~]+|\[\d{1,6}\])+)\s*(?:(<=|>=|!=|=|<|>|~)\s*(.*))?", re.DOTALL)
STEP: Final = re.compile(r"\.([^\s.\[\]=!<>~]+)|\[(\d+)\]")
PLACES: Final = ("", "key", "value", "headers")
NOTHING: Final = object()

ToJson = Callable[[bytes], Any]
Matches = Callable[[Record], bool]


class BadSearch(ValueError):
    """A search cannot be read; the message says what to write."""


def parsed_json(data: bytes) -> Any:
    """Return the JSON of a value; `NOTHING` if it is none."""
    try:
        return json.loads(data) if data[:1] in b'{["' or data[:1].isspace() else NOTHING
    except (ValueError, RecursionError):
        return NOTHING


def search(text: str, place: str = "", to_json: ToJson = parsed_json) -> Matches:
    """Return what tells whether a record is searched for.

    Args:
        text: a text, or a path with a comparison.
        place: where a text has to be: ``key``, ``value``, ``headers``, or empty for any.
        to_json: decodes a value.

    Raises:
        BadSearch: the path or the place cannot be read.
    """
    if len(text) > TEXT_MAX:
        raise BadSearch(f"Search: at most {TEXT_MAX:,} characters")
    if place not in PLACES:
        raise BadSearch("Search in: key, value or headers, or nothing for all of them")
    if text.startswith(("$.", "$[")):
        return _at_path(text, to_json)
    wanted = text.encode()

    def holds(data: bytes | None) -> bool:
        if data is None:
            return False
        if wanted in data:
            return True
        if to_json is parsed_json:
            return False
        decoded = to_json(data)
        return decoded is not NOTHING and text in json.dumps(decoded, ensure_ascii=False, default=str)

    def matches(record: Record) -> bool:
        return (
            (place in ("", "value") and holds(record.value))
            or (place in ("", "key") and holds(record.key))
            or (
                place in ("", "headers")
                and any(text in name or (data is not None and wanted in data) for name, data in record.headers)
            )
        )

    return matches


def _at_path(text: str, to_json: ToJson) -> Matches:
    found = PATH.fullmatch(text.strip())
    if found is None:
        raise BadSearch("Search: write a path as $.delay > 60, $.legs[0].from = JFK, $.note ~ fog or $.delay")
    steps = [name or int(number) for name, number in STEP.findall(found[1])]
    operator, wanted = found[2], (found[3] or "").strip()
    if operator and not wanted:
        raise BadSearch(f"Search: {operator} needs a value behind it")
    test = _test(operator, wanted)

    def matches(record: Record) -> bool:
        if record.value is None:
            return False
        value = to_json(record.value)
        for step in steps:
            value = _stepped(value, step)
        return value is not NOTHING and test(value)

    return matches


def _stepped(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and step < len(value) else NOTHING
    return value.get(step, NOTHING) if isinstance(value, dict) else NOTHING


def _test(operator: str | None, wanted: str) -> Callable[[Any], bool]:
    try:
        literal = json.loads(wanted)
    except (ValueError, RecursionError):
        literal = wanted
    match operator:
        case None | "":
            return lambda value: value is not None
        case "=":
            return lambda value: _equal(value, literal, wanted)
        case "!=":
            return lambda value: not _equal(value, literal, wanted)
        case "~":
            return lambda value: str(literal) in (value if isinstance(value, str) else json.dumps(value, default=str))
    if isinstance(literal, bool) or not isinstance(literal, int | float | str):
        raise BadSearch(f"Search: {operator} needs a number or a text behind it")
    return lambda value: _ordered(operator, value, literal, wanted)


def _equal(value: Any, literal: Any, text: str) -> bool:
    if isinstance(value, str):
        return value in (literal, text)
    return isinstance(value, bool) == isinstance(literal, bool) and bool(value == literal)


def _ordered(operator: str, value: Any, literal: float | str, text: str) -> bool:
    other: Any = text if isinstance(value, str) and not isinstance(literal, str) else literal
    are_numbers = isinstance(value, int | float) and isinstance(other, int | float) and not isinstance(value, bool)
    if not are_numbers and not (isinstance(value, str) and isinstance(other, str)):
        return False
    match operator:
        case "<":
            return bool(value < other)
        case "<=":
            return bool(value <= other)
        case ">":
            return bool(value > other)
        case _:
            return bool(value >= other)
