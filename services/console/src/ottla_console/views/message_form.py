"""What somebody typed to publish a message, checked before a cluster is asked. Pure."""

from collections.abc import Mapping
from typing import Final

from ottla_operations.records.field_codec import BadField as BadBytes
from ottla_operations.records.field_codec import FieldCodec, FieldFormat, plain_codec
from ottla_operations.records.record_line import Headers, Record

HEADERS_MAX: Final = 100
FORMATS: Final = {
    "text": "Text, or JSON",
    "json": "JSON, checked",
    "int32": "32-bit number",
    "int64": "64-bit number",
    "hex": "Bytes, hexadecimal",
    "base64": "Bytes, base64",
    "schema": "By the subject's newest schema",
}
"""What a typed key or value is; the last needs a schema registry."""
NONE: Final = "none"
SCHEMA: Final = "schema"


class BadMessage(ValueError):
    """A field cannot be used; the message names it."""


def typed_message(form: Mapping[str, str], topic: str, partitions: int, schemas: Mapping[str, FieldCodec]) -> Record:
    """Return the message that a form describes.

    Args:
        form: its fields; ``key_format`` and ``value_format`` are of `FORMATS`, or ``none`` for null.
        topic: where it goes.
        partitions: of the topic.
        schemas: by ``key`` and ``value`` what encodes those that have a schema.

    Raises:
        BadMessage: names the field.
    """
    number = form.get("partition", "").strip()
    if number and (not number.isascii() or not number.isdecimal() or len(number) > 9 or int(number) >= partitions):
        raise BadMessage(f"Partition: a number from 0 to {partitions - 1}, or nothing to have the key choose")
    return Record(
        topic=topic,
        partition=int(number) if number else None,
        key=_bytes("key", form, schemas),
        value=_bytes("value", form, schemas),
        headers=_headers(form.get("headers", "")),
    )


def _bytes(name: str, form: Mapping[str, str], schemas: Mapping[str, FieldCodec]) -> bytes | None:
    format_ = form.get(f"{name}_format", "text")
    if format_ == NONE:
        return None
    if format_ not in FORMATS or (format_ == SCHEMA and name not in schemas):
        raise BadMessage(f"{name.capitalize()}: its format is one of the list")
    # Browsers send line ends of two characters whatever was typed.
    text = form.get(name, "").replace("\r\n", "\n")
    codec = schemas[name] if format_ == SCHEMA else plain_codec(FieldFormat(format_))
    try:
        return codec.from_text((text if format_ == "text" else text.strip()).encode())
    except BadBytes as problem:
        raise BadMessage(f"{name.capitalize()}: it {problem}") from None


def _headers(text: str) -> Headers:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > HEADERS_MAX:
        raise BadMessage(f"Headers: at most {HEADERS_MAX}")
    pairs = [line.partition(":") for line in lines]
    if not all(colon and name.strip() for name, colon, _ in pairs):
        raise BadMessage("Headers: one a line, as NAME: VALUE")
    return tuple((name.strip(), value.strip().encode()) for name, _, value in pairs)


def copied_form(record: Record) -> dict[str, str]:
    """Return the form's fields that describe a message, to publish it again with changes."""
    fields = {}
    for name, data in (("key", record.key), ("value", record.value)):
        fields[f"{name}_format"], fields[name] = _written(data)
    headers = [(name, value or b"") for name, value in record.headers]
    lines = [f"{name}: {value.decode(errors='replace')}" for name, value in headers[:HEADERS_MAX]]
    return {**fields, "headers": "\n".join(line for line in lines if "\n" not in line)}


def _written(data: bytes | None) -> tuple[str, str]:
    if data is None:
        return NONE, ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "hex", data.hex()
    is_typed_so = "\r" not in text and "\0" not in text and not text.startswith("\n")
    return ("text", text) if is_typed_so else ("hex", data.hex())
