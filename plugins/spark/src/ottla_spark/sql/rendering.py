"""Values of Spark as text and as JSON. Pure.

A time with a zone arrives from Spark as a naive `datetime` in the zone of this process; it is shown in the session's
zone, so that it reads as Spark itself would write it.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    NumericType,
    StructType,
    TimestampType,
)

NULL = "NULL"
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})")


def zone_named(name: str) -> tzinfo:
    """Return a time zone as Spark names it, such as ``Europe/Berlin`` or ``+01:00``; UTC for one unknown here."""
    found = _OFFSET.fullmatch(name)
    if found:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return UTC


def is_number(data_type: DataType) -> bool:
    """Return whether a column stands to the right."""
    return isinstance(data_type, NumericType)


def cell_text(value: Any, data_type: DataType, zone: tzinfo) -> str:
    """Return a value for a table or CSV, on one line; null is for the caller."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(data_type, (StructType, ArrayType, MapType)):
        return printable(json.dumps(json_value(value, data_type, zone), ensure_ascii=False))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = _in_zone(value, data_type, zone).replace(tzinfo=None).isoformat(" ")
        return text.rstrip("0") if "." in text else text
    if isinstance(value, (bytes, bytearray)):
        return printable(bytes_text(bytes(value)))
    if hasattr(value, "toJson"):
        return str(value.toJson())
    return str(value)


def json_value(value: Any, data_type: DataType, zone: tzinfo) -> Any:
    """Return a value as `json` can write it; bytes become base64, times ISO 8601."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(data_type, StructType):
        return {
            field.name: json_value(part, field.dataType, zone)
            for field, part in zip(data_type.fields, value, strict=True)
        }
    if isinstance(data_type, ArrayType):
        return [json_value(part, data_type.elementType, zone) for part in value]
    if isinstance(data_type, MapType):
        return {
            str(json_value(key, data_type.keyType, zone)): json_value(part, data_type.valueType, zone)
            for key, part in value.items()
        }
    for known, converted in _CONVERSIONS.items():
        if isinstance(value, known):
            return converted(value)
    if isinstance(value, datetime):
        moment = _in_zone(value, data_type, zone)
        return moment.isoformat().replace("+00:00", "Z")
    return str(value.toJson()) if hasattr(value, "toJson") else str(value)


def json_line(row: Sequence[Any], schema: StructType, zone: tzinfo) -> str:
    """Return a row as one JSON document on one line."""
    return json.dumps(json_value(row, schema, zone), ensure_ascii=False)


def printable(text: str) -> str:
    """Return a text with what would move the cursor or worse written as escapes."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "backslashreplace").decode() for each in text
    )


def bytes_text(value: bytes) -> str:
    """Return bytes as the text that they are, or else in hexadecimal digits."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()
    return text if text.isprintable() else "0x" + value.hex()


def _in_zone(value: datetime, data_type: DataType, zone: tzinfo) -> datetime:
    return value.astimezone(zone) if isinstance(data_type, TimestampType) else value


def _float(value: float) -> float | str:
    return value if value == value and abs(value) != float("inf") else str(value)  # noqa: PLR0124 - NaN


def _decimal(value: Decimal) -> int | float | str:
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    return number if Decimal(repr(number)) == value else str(value)


_CONVERSIONS: Mapping[type, Callable[[Any], Any]] = {
    float: _float,
    Decimal: _decimal,
    bytes: lambda value: base64.b64encode(value).decode(),
    bytearray: lambda value: base64.b64encode(value).decode(),
    timedelta: str,
}
