"""JSON of values and records for sinks that write it without a converter, the same in all of them. Pure.

Bytes are written in base64, dates and times as in ISO 8601, decimals as strings that keep their digits.
"""

import base64
import datetime as dt
import decimal
import json
from collections.abc import Mapping
from typing import Any

from ottla_sdk.errors import DataError
from ottla_sdk.records import SinkRecord


def json_form(value: Any) -> str:
    """Return the text that stands for a value of which JSON has no type.

    Raises:
        TypeError: nothing stands for it.
    """
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=json_form).encode


def json_text(value: Any) -> str:
    """Return a value as JSON in one line.

    Raises:
        DataError: JSON cannot say it: NaN, infinity, an object of an unknown type, too deep a nesting.
    """
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"the value cannot be written as JSON: {error}") from error


def utf_8(text: str) -> bytes:
    """Return a text's bytes.

    Raises:
        DataError: it has half of a surrogate pair in it.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the value is no valid text: {error}") from error


def record_object(record: SinkRecord) -> Mapping[str, Any]:
    """Return an object with everything that a record has."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "headers": [{"key": header.key, "value": header.value} for header in record.headers],
        "value": record.value,
    }
