"""One record as one line of text, both ways. Pure.

Three formats. `lines`: the line is the value, with a separator also the key. `json`: the line is a JSON document and
the value as it stands; one of its fields may be the key. `record`: a JSON object that holds all of a record, so that
what `consume` writes, `produce` can read back without loss; bytes that are no UTF-8 stand there in base64 under
``key_base64`` or ``value_base64``.

What the bytes of keys and values are is another matter, see `field_codec`: by default they are text.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ottla_operations.records.field_codec import (
    BadField,
    FieldCodec,
    FieldFormat,
    JsonCodec,
    compact_json,
    plain_codec,
)

Headers = tuple[tuple[str, bytes | None], ...]

KNOWN_FIELDS = frozenset(
    {
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "key_base64",
        "value",
        "value_base64",
        "headers",
    }
)


TEXT = plain_codec(FieldFormat.TEXT)


class BadLine(ValueError):
    """A line that is no record in the format asked for; the message says why."""


class Format(StrEnum):
    """How a line holds a record."""

    LINES = "lines"
    JSON = "json"
    RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is published or was read.

    Attributes:
        timestamp: milliseconds since the epoch, or None for the moment of publishing.
        partition: None leaves the choice to the partitioner.
        offset: None until it is in a log.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None
    offset: int | None = None
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class LineOptions:
    """How lines are read and written.

    Attributes:
        key_separator: what stands between key and value in `lines`; None means there are no keys.
        key_field: the field of a `json` document that is the key.
        null_text: a key or value in `lines` equal to this is null.
        key_codec: what the bytes of keys are; likewise `value_codec`.
    """

    format: Format
    key_separator: bytes | None = None
    key_field: str | None = None
    null_text: bytes | None = None
    key_codec: FieldCodec = TEXT
    value_codec: FieldCodec = TEXT


def record_reader(options: LineOptions) -> Callable[[bytes], Record]:
    """Return the function that turns a line without its end into a record; it raises `BadLine`."""
    match options.format:
        case Format.LINES:
            return lambda line: _read_plain(line, options)
        case Format.JSON:
            return lambda line: _read_json(line, options)
        case Format.RECORD:
            return lambda line: _read_record(line, options)


def record_writer(options: LineOptions) -> Callable[[Record], bytes]:
    """Return the function that turns a record into a line with its end; it raises `BadLine`.

    A `json` line is the value alone, as `lines` without a separator.
    """
    if options.format is Format.RECORD:
        return lambda record: compact_json(record_document(record, options.key_codec, options.value_codec)) + b"\n"
    return lambda record: _write_plain(record, options)


def record_document(record: Record, key_codec: FieldCodec = TEXT, value_codec: FieldCodec = TEXT) -> dict[str, Any]:
    """Return a record as plain JSON values, in the form that the `record` format has.

    Raises:
        BadLine: the key or the value is not what its codec is for.
    """
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_json_field("key", record.key, key_codec),
        **_json_field("value", record.value, value_codec),
        "headers": [[name, *_header_value(value)] for name, value in record.headers],
    }


def shown(name: str, data: bytes, codec: FieldCodec) -> bytes:
    """Return a key or a value as it stands in a line.

    Args:
        name: ``key`` or ``value``, for messages.
        data: its bytes.
        codec: what they are.

    Raises:
        BadLine: they are something else.
    """
    with _field(name):
        return codec.to_text(data)


@contextmanager
def _field(name: str) -> Iterator[None]:
    try:
        yield
    except BadField as problem:
        raise BadLine(f"its {name} {problem}") from None


def _json_field(name: str, data: bytes | None, codec: FieldCodec) -> dict[str, Any]:
    if data is None:
        return {name: None}
    with _field(name):
        return codec.to_field(name, data)


def _read_plain(line: bytes, options: LineOptions) -> Record:
    key, value = None, line
    if options.key_separator is not None:
        key, separator, value = line.partition(options.key_separator)
        if not separator:
            raise BadLine(f"it has no key separator {options.key_separator.decode(errors='replace')!r}")
    return Record(
        key=_from_text("key", key, options.key_codec, options.null_text),
        value=_from_text("value", value, options.value_codec, options.null_text),
    )


def _from_text(name: str, text: bytes | None, codec: FieldCodec, null: bytes | None) -> bytes | None:
    if text is None or text == null:
        return None
    with _field(name):
        return codec.from_text(text)


def _read_json(line: bytes, options: LineOptions) -> Record:
    document = _load(line)
    key_field = options.key_field
    key = None
    if key_field is not None:
        if not isinstance(document, dict) or key_field not in document:
            raise BadLine(f"it has no field {key_field!r} for the key")
        key = _from_json("key", document[key_field], options.key_codec)
    codec = options.value_codec
    # The document stays as it stands, to the last digit; a codec that has a use for what it says gets that.
    is_kept = codec.is_plain or (isinstance(codec, JsonCodec) and document is not None)
    value = line if is_kept else _from_json("value", document, codec)
    return Record(key=key, value=value)


def _from_json(name: str, value: Any, codec: FieldCodec) -> bytes | None:
    if value is None:
        return None
    with _field(name):
        return codec.from_json(value)


def _read_record(line: bytes, options: LineOptions) -> Record:
    document = _load(line)
    if not isinstance(document, dict):
        raise BadLine("it is no JSON object")
    if unknown := document.keys() - KNOWN_FIELDS:
        raise BadLine(f"it has the unknown field {min(unknown)!r}")
    if not document.keys() & {"value", "value_base64"}:
        raise BadLine("it has no field 'value'")
    for name in ("key", "value"):
        if None not in (document.get(name), document.get(f"{name}_base64")):
            raise BadLine(f"it has both {name} and {name}_base64")
    return Record(
        key=_field_bytes(document, "key", options.key_codec),
        value=_field_bytes(document, "value", options.value_codec),
        headers=_read_headers(document.get("headers") or []),
        timestamp=_optional_number(document, "timestamp"),
        partition=_optional_number(document, "partition"),
    )


def _read_headers(given: Any) -> Headers:
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) in (2, 3) for pair in pairs
    ):
        raise BadLine("its headers are neither an object nor a list of [name, value]")
    headers = []
    for name, value, *encoding in pairs:
        if not isinstance(name, str):
            raise BadLine("a header's name is no string")
        if encoding not in ([], ["base64"]):
            raise BadLine(f"its header {name!r} has an encoding other than base64")
        headers.append((name, _from_base64(value) if encoding == ["base64"] else _as_bytes(value)))
    return tuple(headers)


def _write_plain(record: Record, options: LineOptions) -> bytes:
    null = options.null_text if options.null_text is not None else b""
    value = null if record.value is None else shown("value", record.value, options.value_codec)
    if options.key_separator is None:
        return value + b"\n"
    key = null if record.key is None else shown("key", record.key, options.key_codec)
    return key + options.key_separator + value + b"\n"


def _load(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise BadLine(f"it is no JSON ({error})") from None


def _as_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    with _field("header"):
        return TEXT.from_json(value)


def _field_bytes(document: dict[str, Any], name: str, codec: FieldCodec) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    return _from_json(name, document.get(name), codec) if encoded is None else _from_base64(encoded)


def _from_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadLine("it has a field that is no base64") from None


def _optional_number(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise BadLine(f"its {name} is no whole number")
    return value


def _header_value(data: bytes | None) -> Sequence[str | None]:
    if data is None:
        return (None,)
    try:
        return (data.decode(),)
    except UnicodeDecodeError:
        return (base64.b64encode(data).decode(), "base64")
