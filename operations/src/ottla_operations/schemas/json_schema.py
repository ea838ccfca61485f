"""JSON Schema: the bytes are JSON, which is checked against its schema before it is published."""

import json
from typing import Any

from ottla_operations.records.field_codec import BadField, compact_json, parse_json
from ottla_operations.schemas.registry import SchemaText, missing


class JsonSchema:
    """One schema."""

    def __init__(self, schema: SchemaText) -> None:
        self._schema = schema
        self._validator: Any = None

    def decode(self, data: bytes) -> Any:
        """Return the document; whether it fits was its producer's concern.

        Raises:
            BadField: it is no JSON.
        """
        return parse_json(data)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a document.

        Raises:
            BadField: it does not fit the schema.
            OperationError: jsonschema is not installed.
        """
        if self._validator is None:
            self._validator = self._make_validator()
        problem = next(self._validator.iter_errors(value), None)
        if problem is not None:
            raise BadField(f"does not fit its JSON schema: {problem.message} (at {problem.json_path})")
        return compact_json(value)

    def _make_validator(self) -> Any:
        try:
            from jsonschema.validators import validator_for  # noqa: PLC0415
            from referencing import Registry as Resources  # noqa: PLC0415
            from referencing import Resource  # noqa: PLC0415
            from referencing.jsonschema import DRAFT7  # noqa: PLC0415
        except ImportError as error:
            raise missing(error) from None
        try:
            document = json.loads(self._schema.text)
            resources: Any = Resources().with_resources(
                (name, Resource.from_contents(json.loads(text), default_specification=DRAFT7))
                for name, text in self._schema.references.items()
            )
        except ValueError as error:
            raise BadField(f"has a schema that is no JSON: {error}") from None
        return validator_for(document)(document, registry=resources)
