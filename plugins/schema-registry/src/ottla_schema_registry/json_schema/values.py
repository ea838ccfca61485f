"""Values of a Connect schema as JSON and back, by the conventions of JsonSchemaData.

For each schema, functions are made once. Written values are ready for JSON; read values are JSON, parsed, in which
numbers with a point may be decimals.
"""

import base64
import binascii
import datetime as dt
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from ottla_schema_registry.json_schema.conventions import (
    KEY_FIELD,
    VALUE_FIELD,
    JsonRules,
    is_object_map,
    is_union,
)
from ottla_sdk import DataError, Schema, Type
from ottla_sdk.logical_types import (
    bytes_to_decimal,
    date_to_days,
    days_to_date,
    decimal_to_bytes,
    decimal_to_unscaled,
    ms_to_time,
    ms_to_timestamp,
    scale_of,
    time_to_ms,
    timestamp_to_ms,
    unscaled_to_decimal,
)
from ottla_sdk.schema import DATE_NAME, DECIMAL_NAME, INTEGER_BITS, TIME_NAME, TIMESTAMP_NAME, check_value

Convert = Callable[[Any], Any]

_WRITE_LOGICAL: Mapping[str, Callable[[Any], int]] = {
    DATE_NAME: date_to_days,
    TIME_NAME: time_to_ms,
    TIMESTAMP_NAME: timestamp_to_ms,
}
_READ_LOGICAL: Mapping[str, Callable[[int], dt.date | dt.time]] = {
    DATE_NAME: days_to_date,
    TIME_NAME: ms_to_time,
    TIMESTAMP_NAME: ms_to_timestamp,
}


def holds_decimals(schema: Schema) -> bool:
    """Return whether there are decimals in values of a schema, so that numbers must be read exactly."""
    if schema.name == DECIMAL_NAME:
        return True
    parts = [each.schema for each in schema.fields]
    parts += [each for each in (schema.key_schema, schema.value_schema) if each is not None]
    return any(map(holds_decimals, parts))


def value_writer(schema: Schema, rules: JsonRules) -> Convert:
    """Return what makes values of a schema ready for JSON; it raises DataError for those that do not fit."""
    write = _writer(schema, rules)

    def checked(value: Any) -> Any:
        check_value(schema, value)
        return write(value)

    return checked


def value_reader(schema: Schema) -> Convert:
    """Return what makes values of a schema of parsed JSON; it raises DataError for what does not fit."""
    read = _reader(schema)
    default = schema.default if schema.has_default else None

    def read_any(value: Any) -> Any:
        if value is not None:
            return read(value)
        if default is None and not schema.optional:
            raise DataError(f"null, but the schema {_shown(schema)} is not optional")
        return default

    return read_any


# Writing. The values have been checked: what is None here is optional, or has a default.


def _writer(schema: Schema, rules: JsonRules) -> Convert:
    write = _plain_writer(schema, rules)
    keeps_null = schema.optional and rules.ignore_default_for_nullables
    if not schema.has_default or schema.default is None or keeps_null:
        return lambda value: None if value is None else write(value)
    default = write(schema.default)
    return lambda value: default if value is None else write(value)


def _plain_writer(schema: Schema, rules: JsonRules) -> Convert:
    if schema.name == DECIMAL_NAME:
        scale = scale_of(schema)
        if rules.numeric_decimals:
            return lambda value: unscaled_to_decimal(decimal_to_unscaled(value, scale), scale)
        return lambda value: base64.b64encode(decimal_to_bytes(value, scale)).decode("ascii")
    if schema.name is not None and schema.name in _WRITE_LOGICAL:
        return _WRITE_LOGICAL[schema.name]
    if schema.type is Type.BYTES:
        return lambda value: base64.b64encode(value).decode("ascii")
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return _write_float
    if schema.type is Type.ARRAY:
        write = _writer(_part(schema.value_schema), rules)
        return lambda value: [write(each) for each in value]
    if schema.type is Type.MAP:
        return _map_writer(schema, rules)
    if schema.type is Type.STRUCT:
        return _struct_writer(schema, rules)
    return _same


def _map_writer(schema: Schema, rules: JsonRules) -> Convert:
    write_key, write = _writer(_part(schema.key_schema), rules), _writer(_part(schema.value_schema), rules)
    if is_object_map(schema):
        return lambda value: {key: write(each) for key, each in value.items()}
    return lambda value: [{KEY_FIELD: write_key(key), VALUE_FIELD: write(each)} for key, each in value.items()]


def _struct_writer(schema: Schema, rules: JsonRules) -> Convert:
    writes = [(each.name, _writer(each.schema, rules)) for each in schema.fields]
    if not is_union(schema):
        return lambda value: {name: write(value.get(name)) for name, write in writes}

    def write_choice(value: dict[str, Any]) -> Any:
        for name, write in writes:
            if value.get(name) is not None:
                return write(value[name])
        if schema.optional:
            return None
        raise DataError(f"a choice in which none of {', '.join(name for name, _ in writes)} is set")

    return write_choice


def _write_float(value: float) -> float:
    if not math.isfinite(value):
        raise DataError(f"JSON has no {value}")
    return float(value)


# Reading.


def _reader(schema: Schema) -> Convert:
    if schema.name == DECIMAL_NAME:
        scale = scale_of(schema)
        return lambda value: _read_decimal(value, scale)
    if schema.name is not None and schema.name in _READ_LOGICAL:
        read_integer, read_logical = _integer_reader(schema), _READ_LOGICAL[schema.name]
        return lambda value: read_logical(read_integer(value))
    if schema.type in INTEGER_BITS:
        return _integer_reader(schema)
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return lambda value: float(value) if _is_number(value) else _refuse(value, schema)
    if schema.type is Type.BYTES:
        return _read_bytes
    if schema.type is Type.ARRAY:
        read = value_reader(_part(schema.value_schema))
        return lambda value: [read(each) for each in value] if isinstance(value, list) else _refuse(value, schema)
    if schema.type is Type.MAP:
        return _map_reader(schema)
    if schema.type is Type.STRUCT:
        return _choice_reader(schema) if is_union(schema) else _struct_reader(schema)
    kind = bool if schema.type is Type.BOOLEAN else str
    return lambda value: value if isinstance(value, kind) else _refuse(value, schema)


def _integer_reader(schema: Schema) -> Convert:
    bits = INTEGER_BITS[schema.type]
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1

    def read(value: Any) -> int:
        if isinstance(value, float | Decimal) and value == int(value):
            value = int(value)  # To JSON Schema, 1.0 is an integer.
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise _unfitting(value, schema)

    return read


def _map_reader(schema: Schema) -> Convert:
    read_key, read = value_reader(_part(schema.key_schema)), value_reader(_part(schema.value_schema))
    if is_object_map(schema):
        return lambda value: (
            {key: read(each) for key, each in value.items()} if isinstance(value, dict) else _refuse(value, schema)
        )

    def read_entries(value: Any) -> dict[Any, Any]:
        entries = value if isinstance(value, list) else ()
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in entries):
            raise _unfitting(value, schema)
        try:
            return {read_key(each.get(KEY_FIELD)): read(each.get(VALUE_FIELD)) for each in entries}
        except TypeError:
            raise DataError("a map's key is an array, a map or a struct, which cannot be looked up") from None

    return read_entries


def _struct_reader(schema: Schema) -> Convert:
    reads = [(each.name, value_reader(each.schema), _missing(each.schema)) for each in schema.fields]

    def read_struct(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _unfitting(value, schema)
        name = ""
        try:
            made = {}
            for name, read, missing in reads:
                made[name] = read(value[name]) if name in value else missing
            return made
        except DataError as error:
            raise DataError(f"{name}: {error}") from None

    return read_struct


def _missing(schema: Schema) -> Any:
    """Return what stands for a property that is not there: JSON schemas need not say that it may be missing."""
    return schema.default if schema.has_default else None


def _choice_reader(schema: Schema) -> Convert:
    names = [each.name for each in schema.fields]
    reads = {each.name: value_reader(each.schema) for each in schema.fields}

    def read_choice(value: Any) -> dict[str, Any]:
        simple = next((each.name for each in schema.fields if _is_of(each.schema, value)), None)
        if simple is None:
            matches = [(_matching_fields(each.schema, value), each.name) for each in schema.fields]
            most = max(count for count, _ in matches)
            if most == 0:
                raise _unfitting(value, schema)
            simple = next(name for count, name in matches if count == most)
        return dict.fromkeys(names) | {simple: reads[simple](value)}

    return read_choice


def _is_of(schema: Schema, value: Any) -> bool:
    """Return whether a value is of a schema that is no struct; those are told apart by their fields."""
    if isinstance(value, bool):
        return schema.type is Type.BOOLEAN
    if schema.type in INTEGER_BITS:
        return isinstance(value, int)
    if schema.type in (Type.FLOAT32, Type.FLOAT64) or schema.name == DECIMAL_NAME:
        return _is_number(value)
    if schema.type is Type.MAP:
        return isinstance(value, dict) if is_object_map(schema) else isinstance(value, list)
    return (schema.type is Type.STRING and isinstance(value, str)) or (
        schema.type is Type.ARRAY and isinstance(value, list)
    )


def _matching_fields(schema: Schema, value: Any) -> int:
    if schema.type is not Type.STRUCT or not isinstance(value, dict):
        return 0
    fields = [each for each in schema.fields if each.name in value]
    return len(fields) + sum(_matching_fields(each.schema, value[each.name]) for each in fields)


def _read_decimal(value: Any, scale: int) -> Decimal:
    if isinstance(value, str):
        return bytes_to_decimal(_read_bytes(value), scale)
    if _is_number(value):
        return Decimal(value)
    raise DataError(f"a Decimal must be a number or base64 text, not {value!r:.80}")


def _read_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise DataError(f"bytes must be base64 text, not {value!r:.80}") from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _same(value: Any) -> Any:
    return value


def _refuse(value: Any, schema: Schema) -> Any:
    raise _unfitting(value, schema)


def _unfitting(value: Any, schema: Schema) -> DataError:
    return DataError(f"{value!r:.80} ({type(value).__name__}) does not fit the schema {_shown(schema)}")


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("the schema of an array or a map does not say what is in it")
    return schema


def _shown(schema: Schema) -> str:
    return f"{schema.type} {schema.name}" if schema.name else str(schema.type)
