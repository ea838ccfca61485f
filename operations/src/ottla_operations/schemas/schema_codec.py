"""Keys and values in the wire format of Confluent's registry: a zero byte, the schema's id in four bytes, the data.

Protobuf's data begins with which of the schema's messages it is. What is read names its schema; what is published
gets the newest schema of its subject, ``<topic>-key`` or ``<topic>-value``.
"""

import io
from collections.abc import Callable
from typing import Any

from ottla_operations.errors import OperationError
from ottla_operations.records.field_codec import (
    BadField,
    DecodedCodec,
    FieldCodec,
    FieldFormat,
    compact_json,
    parse_json,
    plain_codec,
)
from ottla_operations.schemas.avro import AvroSchema
from ottla_operations.schemas.json_schema import JsonSchema
from ottla_operations.schemas.protobuf import ProtobufSchema
from ottla_operations.schemas.registry import SCHEMAS_MAX, Registry, SchemaText

KINDS = {FieldFormat.AVRO: "AVRO", FieldFormat.JSON_SCHEMA: "JSON", FieldFormat.PROTOBUF: "PROTOBUF"}
"""What the registry calls the formats."""
MAGIC = b"\0"
PREFIX_LENGTH = 5
AnySchema = AvroSchema | JsonSchema | ProtobufSchema


class SchemaCodec(DecodedCodec):
    """Values of which the registry has the schemas.

    Args:
        registry: the registry.
        format_: one that needs a registry; `schema` takes any kind.
        subject: whose newest schema is used for publishing; only reading does without.

    Raises:
        OperationError: the registry cannot be asked, has no such subject, or has another kind of schema there.
    """

    def __init__(self, registry: Registry, format_: FieldFormat, subject: str | None = None) -> None:
        self._registry = registry
        self._kind = KINDS.get(format_)
        self._by_id: dict[int, tuple[str, AnySchema]] = {}
        self._unknown: set[int] = set()
        self._newest: tuple[int, str, AnySchema] | None = None
        if subject is not None:
            self._newest = self._find_newest(subject)

    def to_text(self, data: bytes) -> bytes:
        """Return the JSON value in one line."""
        return compact_json(self.to_json(data))

    def to_json(self, data: bytes) -> Any:
        """Return the JSON value.

        Raises:
            BadField: it is nothing that the registry has a schema for.
        """
        from confluent_kafka.schema_registry.serde import SchemaId  # noqa: PLC0415

        if not is_framed(data):
            raise BadField("has no schema id in front")
        kind, schema = self._known(int.from_bytes(data[1:PREFIX_LENGTH], "big"))
        if not isinstance(schema, ProtobufSchema):
            return schema.decode(data[PREFIX_LENGTH:])
        found = SchemaId(kind)
        try:
            payload = found.from_bytes(io.BytesIO(data)).read()
        except Exception as error:  # noqa: BLE001 - the library raises several kinds
            raise BadField(f"does not say which message it is: {error}") from None
        return schema.decode(payload, found.message_indexes or [0])

    def from_text(self, text: bytes) -> bytes:
        """Return the bytes of a JSON document."""
        return self.from_json(parse_json(text))

    def from_json(self, value: Any) -> bytes:
        """Return the bytes of a JSON value, with the id of its schema in front."""
        from confluent_kafka.schema_registry.serde import SchemaId  # noqa: PLC0415

        assert self._newest is not None
        number, kind, schema = self._newest
        indexes = [0] if kind == "PROTOBUF" else None
        return SchemaId(kind, number, message_indexes=indexes).id_to_bytes() + schema.encode(value)

    def knows(self, data: bytes) -> bool:
        """Return whether the registry has the schema that framed bytes name, as a number in binary names none."""
        number = int.from_bytes(data[1:PREFIX_LENGTH], "big")
        if number in self._unknown:
            return False
        try:
            self._registry.schema(number)
        except BadField:
            if len(self._unknown) < SCHEMAS_MAX:
                self._unknown.add(number)
            return False
        return True

    def _known(self, number: int) -> tuple[str, AnySchema]:
        if number not in self._by_id:
            found = self._registry.schema(number)
            if self._kind not in (None, found.kind):
                raise BadField(f"has a schema of the kind {found.kind}, not {self._kind}")
            if len(self._by_id) >= SCHEMAS_MAX:
                self._by_id.clear()
            self._by_id[number] = (found.kind, _parsed(found))
        return self._by_id[number]

    def _find_newest(self, subject: str) -> tuple[int, str, AnySchema]:
        try:
            found = self._registry.newest(subject)
            if found is None:
                raise OperationError(f"{self._registry.url} has no subject {subject}; register its schema first")
            if self._kind not in (None, found.kind):
                raise OperationError(f"{subject} has a schema of the kind {found.kind}, not {self._kind}")
            return found.id, found.kind, _parsed(found)
        except BadField as problem:
            raise OperationError(f"{subject} {problem}") from None


class DetectingCodec:
    """For reading: what begins with the id of a schema is shown by it, anything else as text.

    Args:
        open_registry: called when the first such key or value is there; a topic of text needs no registry.
    """

    is_plain = True

    def __init__(self, open_registry: Callable[[], Registry]) -> None:
        self._open_registry = open_registry
        self._schemas: SchemaCodec | None = None
        self._text = plain_codec(FieldFormat.TEXT)

    def to_field(self, name: str, data: bytes) -> dict[str, Any]:
        """Return the value, or the text or the bytes."""
        return self._of(data).to_field(name, data)

    def to_text(self, data: bytes) -> bytes:
        """Return the JSON value in one line, or the text."""
        return self._of(data).to_text(data)

    def to_json(self, data: bytes) -> Any:
        """Return the JSON value, or the text."""
        return self._of(data).to_json(data)

    def from_text(self, text: bytes) -> bytes:
        """Not for publishing."""
        raise NotImplementedError

    def from_json(self, value: Any) -> bytes:
        """Not for publishing."""
        raise NotImplementedError

    def _of(self, data: bytes) -> FieldCodec:
        if not is_framed(data):
            return self._text
        if self._schemas is None:
            self._schemas = SchemaCodec(self._open_registry(), FieldFormat.SCHEMA)
        return self._schemas if self._schemas.knows(data) else self._text


def is_framed(data: bytes) -> bool:
    """Return whether bytes begin as those with a schema do."""
    return data[:1] == MAGIC and len(data) >= PREFIX_LENGTH


def _parsed(schema: SchemaText) -> AnySchema:
    match schema.kind:
        case "AVRO":
            return AvroSchema(schema)
        case "JSON":
            return JsonSchema(schema)
        case "PROTOBUF":
            return ProtobufSchema(schema)
    raise BadField(f"has a schema of the kind {schema.kind}, which is unknown here")
