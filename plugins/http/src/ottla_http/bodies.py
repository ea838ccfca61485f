"""How records become the body of a request. Pure."""

import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Literal

from ottla_sdk import DataError, SinkRecord
from ottla_sdk.json_text import json_text, record_object, utf_8

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
    value = record_object(record) if whole_record else record.value
    if value_format == "json":
        return utf_8(json_text(value))
    if isinstance(value, str):
        return utf_8(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if value is None:
        return b""
    if value_format == "text":
        return utf_8(json_text(value))
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
