"""Connect's schemas as JSON, the way Kafka Connect's JsonConverter writes them into each record.

`{"type": "struct", "fields": [{"type": "int32", "optional": false, "field": "delay"}], "optional": false}`. The types
and the order of the members are those of Kafka's classes `JsonSchema` and `JsonConverter`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ottla_sdk import DataError, Field, Schema, Type

_TYPE_NAMES: Mapping[Type, str] = {
    Type.BOOLEAN: "boolean",
    Type.INT8: "int8",
    Type.INT16: "int16",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BYTES: "bytes",
    Type.STRING: "string",
    Type.ARRAY: "array",
    Type.MAP: "map",
    Type.STRUCT: "struct",
}
_TYPES: Mapping[str, Type] = {name: each for each, name in _TYPE_NAMES.items()}

ValueConversion = Callable[[Schema, Any], Any]
"""Turns a value of a schema into its JSON form, or back."""


def to_json(schema: Schema, value_to_json: ValueConversion) -> dict[str, Any]:
    """Return the JSON form of a schema.

    Args:
        schema: the schema.
        value_to_json: for default values.

    Raises:
        DataError: an array or map does not say what is in it, or a default does not fit.
    """
    made: dict[str, Any] = {"type": _TYPE_NAMES[schema.type]}
    if schema.type is Type.ARRAY:
        made["items"] = to_json(_part(schema.value_schema, "array", "elements"), value_to_json)
    elif schema.type is Type.MAP:
        made["keys"] = to_json(_part(schema.key_schema, "map", "keys"), value_to_json)
        made["values"] = to_json(_part(schema.value_schema, "map", "values"), value_to_json)
    elif schema.type is Type.STRUCT:
        made["fields"] = [{**to_json(each.schema, value_to_json), "field": each.name} for each in schema.fields]
    made["optional"] = schema.optional
    if schema.name is not None:
        made["name"] = schema.name
    if schema.version is not None:
        made["version"] = schema.version
    if schema.doc is not None:
        made["doc"] = schema.doc
    if schema.parameters:
        made["parameters"] = dict(schema.parameters)
    if schema.has_default and schema.default is not None:
        made["default"] = value_to_json(schema, schema.default)
    return made


def from_json(described: Any, json_to_value: ValueConversion) -> Schema:
    """Return the schema that a JSON form describes.

    Args:
        described: the JSON form, parsed.
        json_to_value: for default values; the schema it gets has no default yet.

    Raises:
        DataError: it describes none.
    """
    if not isinstance(described, dict):
        raise DataError(f"a schema must be a JSON object, not {described!r:.80}")
    name = described.get("type")
    if not isinstance(name, str):
        raise DataError("a schema must contain the member 'type'")
    if name not in _TYPES:
        raise DataError(f"unknown schema type {name!r:.80}; known are {', '.join(_TYPES)}")
    kind = _TYPES[name]
    schema = Schema(
        type=kind,
        optional=described.get("optional") is True,
        name=_text(described.get("name")),
        version=_version(described.get("version")),
        doc=_text(described.get("doc")),
        parameters=_parameters(described.get("parameters")),
        **_parts(kind, described, json_to_value),
    )
    default = described.get("default")
    return schema if default is None else replace(schema, default=json_to_value(schema, default))


def _parts(kind: Type, described: dict[str, Any], json_to_value: ValueConversion) -> dict[str, Any]:
    if kind is Type.ARRAY:
        if described.get("items") is None:
            raise DataError("an array's schema must say in 'items' what its elements are")
        return {"value_schema": from_json(described["items"], json_to_value)}
    if kind is Type.MAP:
        if described.get("keys") is None or described.get("values") is None:
            raise DataError("a map's schema must have 'keys' and 'values'")
        return {
            "key_schema": from_json(described["keys"], json_to_value),
            "value_schema": from_json(described["values"], json_to_value),
        }
    if kind is Type.STRUCT:
        fields = described.get("fields")
        if not isinstance(fields, list):
            raise DataError("a struct's schema must list its 'fields'")
        return {"fields": tuple(_field(each, json_to_value) for each in fields)}
    return {}


def _field(described: Any, json_to_value: ValueConversion) -> Field:
    schema = from_json(described, json_to_value)
    name = described.get("field")
    if not isinstance(name, str):
        raise DataError("each field of a struct's schema must have its name in 'field'")
    return Field(name, schema)


def _part(schema: Schema | None, what: str, parts: str) -> Schema:
    if schema is None:
        raise DataError(f"the schema of an {what} does not say what its {parts} are")
    return schema


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _version(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _parameters(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    for name, parameter in value.items():
        if not isinstance(parameter, str):
            raise DataError(f"the schema parameter {name!r:.80} must be a string")
    return value
