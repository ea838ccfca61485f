"""Any kio request of any version, from only the fields that a test cares about.

    sparse_request("fetch", 17, max_wait=500, topics=[{"topic_id": topic_id, "partitions": [{"fetch_offset": 7}]}])

Nested messages are mappings, lists are sequences, durations are milliseconds. What is left out gets the schema's
default where it has one, and otherwise zero, an empty text, an empty list or null.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from kio.schema.index import schema_name_map
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta


def sparse_request(api: str, version: int, **fields: Any) -> Any:
    """A request of an API, by kio's name for it such as `list_offsets`."""
    module_name, _, class_name = schema_name_map[api][version][EntityType.request].partition(":")
    return _entity(getattr(import_module(module_name), class_name), fields)


def _entity(entity_type: type[Any], given: Mapping[str, Any]) -> Any:
    hints = typing.get_type_hints(entity_type)
    unknown = given.keys() - hints.keys()
    assert not unknown, f"{entity_type.__name__} has no {', '.join(sorted(unknown))}"
    values = {}
    for field in dataclasses.fields(entity_type):
        if field.name in given:
            values[field.name] = _value(hints[field.name], given[field.name])
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            values[field.name] = _nothing(hints[field.name])
    return entity_type(**values)


def _value(hint: Any, given: Any) -> Any:
    inner = _without_none(hint)
    if isinstance(given, Mapping):
        return _entity(inner, given)
    if typing.get_origin(inner) is tuple and given is not None:
        return tuple(_value(typing.get_args(inner)[0], element) for element in given)
    if given is not None and issubclass(_base_type(inner), timedelta):
        return i32Timedelta.parse(timedelta(milliseconds=given))
    return given


def _nothing(hint: Any) -> Any:
    inner = _without_none(hint)
    if inner is not hint:
        return None
    if typing.get_origin(inner) is tuple:
        return ()
    base = _base_type(inner)
    if dataclasses.is_dataclass(base):
        return _entity(base, {})
    if issubclass(base, timedelta):
        return i32Timedelta.parse(timedelta(0))
    return next((kind() for kind in (bool, int, str, bytes) if issubclass(base, kind)), None)


def _without_none(hint: Any) -> Any:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(argument for argument in typing.get_args(hint) if argument is not type(None))
    return hint


def _base_type(hint: Any) -> type[Any]:
    while not isinstance(hint, type):
        hint = hint.__supertype__
    return hint
