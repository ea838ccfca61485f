"""Connect schemas as JSON schemas."""

from dataclasses import replace
from typing import Any

from ottla_schema_registry.json_schema.conventions import (
    ENUM_PARAMETER,
    INDEX_PROPERTY,
    KEY_FIELD,
    NAMESPACE,
    NULL_SYMBOL,
    PARAMETERS_PROPERTY,
    TYPE_PROPERTY,
    VALUE_FIELD,
    VERSION_PROPERTY,
    JsonRules,
    is_object_map,
    is_union,
)
from ottla_schema_registry.json_schema.values import value_writer
from ottla_sdk import DataError, Schema, Type
from ottla_sdk.schema import DECIMAL_NAME

_NUMBERS = {
    Type.INT8: ("integer", "int8"),
    Type.INT16: ("integer", "int16"),
    Type.INT32: ("integer", "int32"),
    Type.INT64: ("integer", "int64"),
    Type.FLOAT32: ("number", "float32"),
    Type.FLOAT64: ("number", "float64"),
}


def to_json_schema(schema: Schema, rules: JsonRules) -> dict[str, Any]:
    """Return the JSON schema of a Connect schema.

    Raises:
        DataError: it is incomplete, or a default does not fit.
    """
    return _translated(schema, rules, None)


def _translated(
    schema: Schema, rules: JsonRules, index: int | None, *, ignore_optional: bool = False
) -> dict[str, Any]:
    if is_union(schema):
        choices = [
            _translated(replace(each.schema, optional=False), rules, number, ignore_optional=True)
            for number, each in enumerate(schema.fields)
        ]
        made: dict[str, Any] = {"oneOf": [{"type": "null"}, *choices] if schema.optional else choices}
    elif schema.optional and not ignore_optional:
        required = _translated(replace(schema, optional=False), rules, None)
        made = {"oneOf": [{"type": "null"}, required]}
    else:
        made = _described(_base(schema, rules), schema, rules)
    if index is not None:
        made[INDEX_PROPERTY] = index
    return made


def _base(schema: Schema, rules: JsonRules) -> dict[str, Any]:
    if schema.type in _NUMBERS:
        kind, connect_type = _NUMBERS[schema.type]
        return {"type": kind, TYPE_PROPERTY: connect_type}
    if schema.type is Type.BOOLEAN:
        return {"type": "boolean"}
    if schema.type is Type.STRING:
        return {"enum": _symbols(schema)} if ENUM_PARAMETER in schema.parameters else {"type": "string"}
    if schema.type is Type.BYTES:
        is_number = schema.name == DECIMAL_NAME and rules.numeric_decimals
        return {"type": "number" if is_number else "string", TYPE_PROPERTY: "bytes"}
    if schema.type is Type.ARRAY:
        return {"type": "array", "items": _translated(_part(schema.value_schema), rules, None)}
    if schema.type is Type.MAP:
        return _map(schema, rules)
    properties = {each.name: _translated(each.schema, rules, number) for number, each in enumerate(schema.fields)}
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return made if rules.additional_properties else {**made, "additionalProperties": False}


def _map(schema: Schema, rules: JsonRules) -> dict[str, Any]:
    keys, values = _part(schema.key_schema), _part(schema.value_schema)
    if is_object_map(schema):
        return {
            "type": "object",
            "additionalProperties": _translated(values, rules, None),
            TYPE_PROPERTY: "map",
        }
    entry = {
        "type": "object",
        "properties": {KEY_FIELD: _translated(keys, rules, 0), VALUE_FIELD: _translated(values, rules, 1)},
    }
    return {"type": "array", "items": entry, TYPE_PROPERTY: "map"}


def _described(made: dict[str, Any], schema: Schema, rules: JsonRules) -> dict[str, Any]:
    if schema.name is not None:
        made["title"] = schema.name
    if schema.version is not None:
        made[VERSION_PROPERTY] = schema.version
    if schema.doc is not None:
        made["description"] = schema.doc
    parameters = {key: each for key, each in schema.parameters.items() if not key.startswith(NAMESPACE)}
    if parameters:
        made[PARAMETERS_PROPERTY] = parameters
    if schema.has_default and schema.default is not None:
        made["default"] = value_writer(schema, rules)(schema.default)
    return made


def _symbols(schema: Schema) -> list[str | None]:
    prefix = ENUM_PARAMETER + "."
    names = [each.removeprefix(prefix) for each in schema.parameters if each.startswith(prefix)]
    return [None if each == NULL_SYMBOL else each for each in names]


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("the schema of an array or a map does not say what is in it")
    return schema
