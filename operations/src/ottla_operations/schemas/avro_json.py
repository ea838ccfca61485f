"""Avro's JSON encoding as the values that fastavro writes. Pure.

fastavro itself writes whatever can be forced into a type: 1.7 becomes the int 1, "false" the boolean true, and of a
union's types it takes the first that suits. Here a value fits exactly or is refused, and the types of unions that are
named stay what they are.
"""

import struct
from collections.abc import Mapping
from typing import Any

_INTEGER_BITS = {"int": 32, "long": 64}


class DoesNotFit(ValueError):
    """A JSON value that is not of its schema; the message says where and why."""


def avro_value(value: Any, schema: Any, named: Mapping[str, Any], place: str = "it") -> Any:
    """Return what fastavro is to write for a JSON value; of unions a pair of a type's name and a value.

    Args:
        value: in Avro's JSON encoding; the type's name may be left out where a union has one besides null.
        schema: as `fastavro.parse_schema` returned it, without logical types.
        named: the schemas of named types, by full name.
        place: where the value stands, for messages.

    Raises:
        DoesNotFit: it is not of this schema.
    """
    if isinstance(schema, list):
        return _of_union(value, schema, named, place)
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    kind = schema["type"] if isinstance(schema, dict) else schema
    if not isinstance(kind, str):
        return avro_value(value, kind, named, place)
    match kind:
        case "record" | "error":
            return _of_record(_typed(value, dict, kind, place), schema, named, place)
        case "array":
            items = _typed(value, list, kind, place)
            return [avro_value(each, schema["items"], named, f"{place}[{n}]") for n, each in enumerate(items)]
        case "map":
            entries = _typed(value, dict, kind, place)
            return {
                name: avro_value(each, schema["values"], named, f"{place}.{name}") for name, each in entries.items()
            }
        case "enum" if value not in schema["symbols"]:
            raise DoesNotFit(f"{place} is none of {', '.join(schema['symbols'])}")
        case "enum":
            return value
    return _of_primitive(value, kind, place)


def type_name(schema: Any) -> str:
    """Return the name of a type as it stands in the JSON encoding of a union."""
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", schema["type"]))


def _of_union(value: Any, schema: list[Any], named: Mapping[str, Any], place: str) -> Any:
    branches = {type_name(each): each for each in schema}
    if value is None and "null" in branches:
        return None
    branches.pop("null", None)
    if isinstance(value, dict) and len(value) == 1 and (name := next(iter(value))) in branches:
        return name, avro_value(value[name], branches[name], named, place)
    if len(branches) != 1:
        raise DoesNotFit(f"{place} must name one of the types {', '.join(branches)}, as in {{NAME: value}}")
    ((name, branch),) = branches.items()
    return name, avro_value(value, branch, named, place)


def _of_record(value: dict[str, Any], schema: Mapping[str, Any], named: Mapping[str, Any], place: str) -> Any:
    fields = {field["name"]: field for field in schema["fields"]}
    for name in value:
        if name not in fields:  # leaving it out would lose what was published
            raise DoesNotFit(f"{place} has no field {name} in its schema")
    found = {}
    for name, field in fields.items():
        below = name if place == "it" else f"{place}.{name}"
        if name in value:
            found[name] = avro_value(value[name], field["type"], named, below)
        elif "default" in field:
            found[name] = _default(field["default"], field["type"], named, below)
        else:
            raise DoesNotFit(f"{below} is missing, and has no default")
    return found


def _default(value: Any, schema: Any, named: Mapping[str, Any], place: str) -> Any:
    """Return a default, which in a union is of the first type and has no name."""
    if isinstance(schema, list) and value is not None:
        return type_name(schema[0]), avro_value(value, schema[0], named, place)
    return avro_value(value, schema, named, place)


def _of_primitive(value: Any, kind: str, place: str) -> Any:
    match kind:
        case "null" if value is None:
            return None
        case "boolean":
            return _typed(value, bool, kind, place)
        case "string":
            return _typed(value, str, kind, place)
        case "bytes" | "fixed":
            try:
                return _typed(value, str, kind, place).encode("iso-8859-1")
            except UnicodeEncodeError:
                raise DoesNotFit(f"{place} has a letter beyond \\u00ff, which stands for no byte") from None
        case "int" | "long":
            return _integer(value, kind, place)
        case "float" | "double":
            return _floating(value, kind, place)
    raise DoesNotFit(f"{place} is no {kind}")


def _integer(value: Any, kind: str, place: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    bound = 1 << (_INTEGER_BITS[kind] - 1)
    if isinstance(value, bool) or not isinstance(value, int) or not -bound <= value < bound:
        raise DoesNotFit(f"{place} is no {kind}: {value!r}")
    return value


def _floating(value: Any, kind: str, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DoesNotFit(f"{place} is no {kind}: {value!r}")
    try:
        struct.pack("<f" if kind == "float" else "<d", value)
        return float(value)
    except OverflowError:
        raise DoesNotFit(f"{place} is too large for a {kind}: {value!r}") from None


def _typed(value: Any, type_: type, kind: str, place: str) -> Any:
    if not isinstance(value, type_):
        raise DoesNotFit(f"{place} is no {kind}")
    return value
