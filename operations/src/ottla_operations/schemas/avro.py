"""Avro: bytes of one schema as Avro's own JSON encoding, which Confluent's tools print and read, too.

Logical types are left out, so that dates are the numbers, and decimals the bytes, that they are stored as, and every
value comes back exactly. What is published may leave out the name of the type where a union has one besides null.
"""

import io
import json
from typing import Any

from ottla_operations.records.field_codec import BadField
from ottla_operations.schemas.avro_json import avro_value
from ottla_operations.schemas.registry import SchemaText, missing

PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class AvroSchema:
    """One schema.

    Raises:
        BadField: it is no schema of Avro.
        OperationError: fastavro is not installed.
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
            # With the names, as two types of a union may look alike.
            value = self._fastavro.schemaless_reader(io.BytesIO(data), self._schema, None, return_named_type=True)
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
            made = avro_value(value, self._schema, self._named)
            self._fastavro.schemaless_writer(encoded, self._schema, made, strict=True)
        except Exception as error:  # noqa: BLE001 - as above
            raise BadField(f"does not fit its Avro schema: {_said(error)}") from None
        return encoded.getvalue()


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


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
