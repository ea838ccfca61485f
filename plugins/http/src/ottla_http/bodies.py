"""How records become the body of a request. Pure."""

import base64
import datetime as dt
import decimal
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ottla_sdk import DataError, SinkRecord

ValueFormat = Literal["json", "text", "bytes"]
Envelope = Literal["single", "array", "ndjson"]

CONTENT_TYPES: Mapping[tuple[ValueFormat, Envelope], str] = {
    ("json", "single"): "application/json",
    ("json", "array"): "application/json",
    ("json", "ndjson"): "application/x-ndjson",
    ("text", "single"): "text/plain; charset=utf-8",
    ("bytes", "single"): "application/octet-stream",
}
"""What there is, and the Content-Type that goes with it."""


def encoded(record: SinkRecord, value_format: ValueFormat, *, whole_record: bool) -> bytes:
    """Return what stands for a record in a body.

    Args:
        record: the record.
        value_format: json: any value; bytes are written in base64, dates and times as in ISO 8601, decimals as
            strings. text: strings, and bytes that are text; anything else as JSON. bytes: strings and bytes.
        whole_record: whether to write not the value but an object with everything that the record has.

    Raises:
        DataError: the format cannot say what is in the record.
    """
    value = _described(record) if whole_record else record.value
    if value_format == "json":
        return _utf_8(_json(value))
    if isinstance(value, str):
        return _utf_8(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if value is None:
        return b""
    if value_format == "text":
        return _utf_8(_json(value))
    raise DataError(f"the value is a {type(value).__name__}, not bytes or a string; http.body.format=json can say it")


def body_of(parts: Sequence[bytes], envelope: Envelope, *, member: str, compress: bool) -> bytes:
    """Return a request's body.

    Args:
        parts: what stands for each record.
        envelope: how they are put together.
        member: if not empty, the array is this member of an object.
        compress: whether to compress it with gzip.
    """
    match envelope:
        case "single":
            (body,) = parts
        case "array":
            body = b"[" + b",".join(parts) + b"]"
            if member:
                body = b"{" + json.dumps(member).encode() + b":" + body + b"}"
        case "ndjson":
            body = b"".join(part + b"\n" for part in parts)
    return gzip.compress(body, mtime=0) if compress else body


def _described(record: SinkRecord) -> Mapping[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "headers": [{"key": header.key, "value": header.value} for header in record.headers],
        "value": record.value,
    }


def _plain(value: Any) -> Any:
    """Return JSON's way to say what JSON has no type for."""
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain).encode


def _json(value: Any) -> str:
    try:
        return _encode_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"the value cannot be written as JSON: {error}") from error


def _utf_8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the value is no valid text: {error}") from error
