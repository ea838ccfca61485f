"""Conversion of a message between two versions of its schema.

kio has a dataclass for every version of every message. Handlers are written once, against the newest version; an
older request is converted up before the handler sees it, and the response is converted down before it is encoded.
Fields are matched by name. A field that the target lacks is dropped; one that the source lacks takes the schema's
default, or the zero value that Kafka's generated code uses where the schema names none.

Where versions differ in more than fields (a topic named by name or by id, say), both shapes exist in kio's newest
dataclass, or the handler looks at the version itself.
"""

import types
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

Target = TypeVar("Target", bound=Entity)

_ZERO_VALUES: dict[str, object] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
}


def convert(message: Entity, target: type[Target]) -> Target:
    """Return the message in another version of its schema; the same object if it already is."""
    if type(message) is target:
        return message
    return cast("Target", _converter(type(message), target)(message))


def message_of(target: type[Target], **values: object) -> Target:
    """Return a message with these values; what the version has no field for is dropped, all else is as by default."""
    return target(**{name: values.get(name, default) for name, default in default_values(target).items()})


@cache
def default_values(target: type[Entity]) -> dict[str, object]:
    """Return the value that each field takes when nothing is said about it; do not change the dictionary."""
    hints = get_type_hints(target)
    return {f.name: _default(f, hints[f.name]) for f in fields(target)}


@cache
def item_type(target: type[Entity], name: str) -> type[Entity]:
    """Return the message class of the items of an array field."""
    entity, _ = _entity_of(get_type_hints(target)[name])
    assert entity is not None, f"{target}.{name} holds no message"
    return entity


@cache
def entity_in(target: type[Entity], name: str) -> type[Entity] | None:
    """Return the message class in a field, alone or in an array; None if the field holds none."""
    return _entity_of(get_type_hints(target)[name])[0]


def field_setters(target: type[Entity]) -> dict[str, Callable[[Any, Any], None]]:
    """Return what sets each field of a message that was made by `__new__`.

    The generated `__init__` of kio's frozen classes takes three times as long. Every field has to be set.
    """
    return {f.name: target.__dict__[f.name].__set__ for f in fields(target)}


@cache
def _converter(source: type[Entity], target: type[Entity]) -> Callable[[Any], Any]:
    source_hints = get_type_hints(source)
    source_names = {f.name for f in fields(source)}
    target_hints = get_type_hints(target)
    copied: list[str] = []
    nested: list[tuple[str, bool, Callable[[Any], Any]]] = []
    constants: dict[str, object] = {}
    for f in fields(target):
        entity, is_tuple = _entity_of(target_hints[f.name])
        if f.name not in source_names:
            constants[f.name] = _default(f, target_hints[f.name])
        elif entity is None:
            copied.append(f.name)
        else:
            source_entity, _ = _entity_of(source_hints[f.name])
            assert source_entity is not None, f"{source}.{f.name} holds no message"
            nested.append((f.name, is_tuple, _converter(source_entity, entity)))

    def apply(message: Any) -> Any:
        values = dict(constants)
        for name in copied:
            values[name] = getattr(message, name)
        for name, is_tuple, inner in nested:
            value = getattr(message, name)
            if value is not None:
                value = tuple(inner(item) for item in value) if is_tuple else inner(value)
            values[name] = value
        return target(**values)

    return apply


def _entity_of(hint: Any) -> tuple[type[Entity] | None, bool]:
    """Return the message class inside a type hint (if it holds one) and whether it is in a tuple."""
    if get_origin(hint) in {Union, types.UnionType}:
        (hint,) = (argument for argument in get_args(hint) if argument is not types.NoneType)
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return (cast("type[Entity]", item) if is_dataclass(item) else None, True)
    return (cast("type[Entity]", hint) if is_dataclass(hint) else None, False)


def _default(f: Field[Any], hint: Any) -> object:
    if f.default is not MISSING:
        return cast("object", f.default)
    if get_origin(hint) is tuple:
        return ()
    if types.NoneType in get_args(hint):
        return None
    if is_dataclass(hint):
        return message_of(cast("type[Entity]", hint))
    return _ZERO_VALUES.get(f.metadata["kafka_type"], 0)
