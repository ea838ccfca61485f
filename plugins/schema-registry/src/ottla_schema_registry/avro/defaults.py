"""Default values in Avro schemas: JSON, in which bytes are text of characters below 256. Pure."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from ottla_schema_registry.avro.conventions import AvroRules, is_avro_map, is_union, scrubbed_field
from ottla_sdk import DataError, Schema, Type
from ottla_sdk.logical_types import (
    bytes_to_decimal,
    date_to_days,
    days_to_date,
    decimal_to_bytes,
    ms_to_time,
    ms_to_timestamp,
    scale_of,
    time_to_ms,
    timestamp_to_ms,
)
from ottla_sdk.schema import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME, check_value

_TO_NUMBER: Mapping[str, Callable[[Any], int]] = {
    DATE_NAME: date_to_days,
    TIME_NAME: time_to_ms,
    TIMESTAMP_NAME: timestamp_to_ms,
}
_FROM_NUMBER: Mapping[str, Callable[[int], Any]] = {
    DATE_NAME: days_to_date,
    TIME_NAME: ms_to_time,
    TIMESTAMP_NAME: ms_to_timestamp,
}


def default_to_json(schema: Schema, value: Any, rules: AvroRules) -> Any:
    """Return the JSON form of a default.

    Raises:
        DataError: it does not fit its schema.
    """
    check_value(schema, value, "the default")
    return _to_json(schema, value, rules)


def default_from_json(schema: Schema, value: Any, rules: AvroRules) -> Any:
    """Return the default that a JSON form says, by a schema that has no default yet.

    Raises:
        DataError: it does not fit.
    """
    try:
        found = _from_json(schema, value, rules)
    except (TypeError, ValueError, AttributeError, UnicodeError) as error:
        raise DataError(f"the default {value!r:.80} does not fit the schema {schema.name or schema.type}") from error
    check_value(schema, found, "the default")
    return found


def _to_json(schema: Schema, value: Any, rules: AvroRules) -> Any:
    if value is None:
        return None
    if schema.name is not None and schema.name in _TO_NUMBER:
        return _TO_NUMBER[schema.name](value)
    if schema.name == DECIMAL_NAME:
        return decimal_to_bytes(value, scale_of(schema)).decode("latin-1")
    if schema.type is Type.BYTES:
        return bytes(value).decode("latin-1")
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return [_to_json(schema.value_schema, each, rules) for each in value]
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        pairs = [
            [_to_json(schema.key_schema, key, rules), _to_json(schema.value_schema, each, rules)]
            for key, each in value.items()
        ]
        return {key: each for key, each in pairs} if is_avro_map(schema, rules) else pairs  # noqa: C416 - they are lists
    if schema.type is Type.STRUCT:
        fields = {each.name: _to_json(each.schema, value.get(each.name), rules) for each in schema.fields}
        if is_union(schema):
            return next((each for each in fields.values() if each is not None), None)
        return {scrubbed_field(name, rules): each for name, each in fields.items()}
    return value


def _from_json(schema: Schema, value: Any, rules: AvroRules) -> Any:
    if value is None:
        return None
    if schema.name is not None and schema.name in _FROM_NUMBER:
        return _FROM_NUMBER[schema.name](value)
    if schema.name == DECIMAL_NAME:
        found: Decimal = bytes_to_decimal(value.encode("latin-1"), scale_of(schema))
        return found
    if schema.type is Type.BYTES:
        return value.encode("latin-1")
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return float(value)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return [_from_json(schema.value_schema, each, rules) for each in value]
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        pairs = value.items() if isinstance(value, dict) else value
        return {
            _from_json(schema.key_schema, key, rules): _from_json(schema.value_schema, each, rules)
            for key, each in pairs
        }
    if schema.type is Type.STRUCT:
        if is_union(schema):
            first = schema.fields[0]  # A union's default is one of its first type.
            return {first.name: _from_json(first.schema, value, rules)}
        return {
            each.name: _from_json(each.schema, value.get(scrubbed_field(each.name, rules)), rules)
            for each in schema.fields
        }
    return value
