"""Avro: bytes of one schema as Avro's own JSON encoding, which Confluent's tools print and read, too.

Logical types are left out, so that dates are the numbers, and decimals the bytes, that they are stored as, and every
value comes back exactly. What is published may leave out the name of the type where a union has one besides null.
"""

import io
import json
from collections.abc import Mapping
from typing import Any

from ottla.records.field_codec import BadField, compact_json
from ottla.schemas.registry import SchemaText, missing

PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class AvroSchema:
    """One schema.

    Raises:
        BadField: it is no schema of Avro.
        CommandError: fastavro is not installed.
    """

    def __init__(self, schema: SchemaText) -> None:
        try:
            import fastavro  # noqa: PLC0415
        except ImportError as error:
            raise missing(error) from None
        self._fastavro = fastavro
        named: dict[str, Any] = {}
        self._named = named
        try:
            for reference in schema.references.values():
                fastavro.parse_schema(_loaded(reference), named)
            self._schema = fastavro.parse_schema(_loaded(schema.text), named)
        except (ValueError, TypeError, LookupError, fastavro.schema.SchemaParseException) as error:
            raise BadField(f"has a schema that is none of Avro: {error}") from None

    def decode(self, data: bytes) -> Any:
        """Return the JSON value of bytes.

        Raises:
            BadField: they are not of this schema.
        """
        text = io.StringIO()
        try:
            value = self._fastavro.schemaless_reader(io.BytesIO(data), self._schema, None)
            self._fastavro.json_writer(text, self._schema, [value])
        except Exception as error:  # noqa: BLE001 - fastavro raises whatever its reading runs into
            raise BadField(f"is not of its Avro schema: {_said(error)}") from None
        return json.loads(text.getvalue())

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a JSON value.

        Raises:
            BadField: it does not fit the schema.
        """
        encoded = io.BytesIO()
        try:
            read = self._read_json(_with_union_names(value, self._schema, self._named))
            self._fastavro.schemaless_writer(encoded, self._schema, read, strict_allow_default=True)
        except Exception as error:  # noqa: BLE001 - as above
            raise BadField(f"does not fit its Avro schema: {_said(error)}") from None
        return encoded.getvalue()

    def _read_json(self, value: Any) -> Any:
        (read,) = self._fastavro.json_reader(io.StringIO(compact_json(value).decode()), self._schema)
        again = io.StringIO()
        self._fastavro.json_writer(again, self._schema, [read])
        # fastavro leaves out fields that the schema does not have, which would lose what was published.
        left_out = _left_out(value, json.loads(again.getvalue()))
        if left_out is not None:
            raise ValueError(f"it has no field {left_out}")
        return read


def _loaded(text: str) -> Any:
    """Return a schema's document; registries also give a primitive type as its bare name."""
    if text in PRIMITIVE:
        return text
    return _without_logical_types(json.loads(text))


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: each if name == "default" else _without_logical_types(each)
        for name, each in schema.items()
        if name != "logicalType"
    }


def _with_union_names(value: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    """Return a JSON value with the names of types that Avro's encoding wants in unions, where they are plain."""
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        branches = {_type_name(each): each for each in schema if each != "null"}
        if isinstance(value, dict) and len(value) == 1 and (name := next(iter(value))) in branches:
            return {name: _with_union_names(value[name], branches[name], named)}
        if value is None or len(branches) != 1:
            return value
        ((name, branch),) = branches.items()
        return {name: _with_union_names(value, branch, named)}
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record" and isinstance(value, dict):
        types = {field["name"]: field["type"] for field in schema["fields"]}
        return {
            name: _with_union_names(each, types[name], named) if name in types else each
            for name, each in value.items()
        }
    if kind == "array" and isinstance(value, list):
        return [_with_union_names(each, schema["items"], named) for each in value]
    if kind == "map" and isinstance(value, dict):
        return {name: _with_union_names(each, schema["values"], named) for name, each in value.items()}
    return value


def _type_name(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", schema["type"]))


def _left_out(given: Any, taken: Any) -> str | None:
    """Return the first field that was given and not taken; None if there is none."""
    if isinstance(given, dict) and isinstance(taken, dict):
        unknown = next((name for name in given if name not in taken), None)
        deeper = (_left_out(each, taken[name]) for name, each in given.items() if name in taken)
    elif isinstance(given, list) and isinstance(taken, list):
        unknown, deeper = None, (_left_out(*pair) for pair in zip(given, taken, strict=False))
    else:
        return None
    return unknown if unknown is not None else next((each for each in deeper if each is not None), None)


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
