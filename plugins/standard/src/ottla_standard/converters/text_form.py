"""Values as text, as the toString of Java's classes has it, for everything that Kafka Connect writes so.

`text_of` is the form of StringConverter: `Struct{carrier=UA,delay=4}`, `{a=1, b=2}`, `[1, 2]`. Bytes become base64,
and dates and times ISO 8601: what Java writes there cannot be used.
"""

import base64
import datetime as dt
import math
from decimal import Decimal
from typing import Any

from ottla_sdk import DataError, Schema, Type


def text_of(schema: Schema | None, value: Any) -> str:
    """Return a value's text; its schema tells structs from maps.

    Raises:
        DataError: a value of a type that no schema has.
    """
    if isinstance(value, dict):
        return _pairs_text(schema, value)
    if isinstance(value, list | tuple):
        elements = schema.value_schema if schema is not None else None
        return "[" + ", ".join(text_of(elements, each) for each in value) + "]"
    if value is None:
        return "null"
    return scalar_text(value)


def _pairs_text(schema: Schema | None, value: dict[Any, Any]) -> str:
    if schema is not None and schema.type is Type.STRUCT:
        fields = (each for each in schema.fields if value.get(each.name) is not None)
        return "Struct{" + ",".join(f"{each.name}={text_of(each.schema, value[each.name])}" for each in fields) + "}"
    keys, values = (schema.key_schema, schema.value_schema) if schema is not None else (None, None)
    return "{" + ", ".join(f"{text_of(keys, key)}={text_of(values, each)}" for key, each in value.items()) + "}"


def scalar_text(value: Any) -> str:
    """Return the text of what is no struct, map or array, and not None.

    Raises:
        DataError: a value of a type that no schema has.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dt.datetime):
        return timestamp_text(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dt.time):
        return value.isoformat("milliseconds") + "Z"
    raise DataError(f"{value!r:.80} ({type(value).__name__}) has no form as text")


def timestamp_text(value: dt.datetime) -> str:
    """Return a timestamp as ``2024-01-31T23:59:59.000Z``."""
    in_utc = value.astimezone(dt.UTC) if value.tzinfo is not None else value
    return in_utc.replace(tzinfo=None).isoformat("T", "milliseconds") + "Z"


def float_text(value: float) -> str:
    """Return a number as Java's Double.toString writes it: ``1.0``, ``1.0E10``, ``1.5E-4``, ``NaN``, ``Infinity``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "a finite number"
    first, *others = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(others) or '0'}E{exponent + len(others)}"
