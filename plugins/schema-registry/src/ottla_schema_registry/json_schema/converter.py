"""The JSON Schema converter."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
from jsonschema.validators import validator_for
from pydantic import BeforeValidator

from ottla_schema_registry.json_schema.connect_schema_of_json import JsonDocument, document, to_connect
from ottla_schema_registry.json_schema.conventions import JsonRules
from ottla_schema_registry.json_schema.json_schema_of_connect import to_json_schema
from ottla_schema_registry.json_schema.values import holds_decimals, value_reader, value_writer
from ottla_schema_registry.registry.client import RegisteredSchema
from ottla_schema_registry.registry.config import RegistryConfig
from ottla_schema_registry.registry_converter import RegistryConverter, SchemaReader, SchemaWriter
from ottla_sdk import DataError, Schema, SchemaAndValue, setting

_JSON = "JSON"

_UpperCase = BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value)


class JsonSchemaConverterConfig(RegistryConfig):
    """Settings of `JsonSchemaConverter`."""

    fail_invalid_schema: bool = setting(
        "json.fail.invalid.schema", False, doc="Whether values are checked against their JSON schema, both ways."
    )
    decimal_format: Annotated[Literal["BASE64", "NUMERIC"], _UpperCase] = setting(
        "decimal.format",
        "BASE64",
        doc="How decimals are written: BASE64, the bytes of the unscaled number, or NUMERIC, a JSON number.",
    )
    object_additional_properties: bool = setting(
        "object.additional.properties",
        True,
        doc="Whether new JSON schemas allow more properties than they name.",
    )
    use_optional_for_nonrequired: bool = setting(
        "use.optional.for.nonrequired",
        False,
        doc="Whether properties that a JSON schema does not require are optional.",
    )
    flatten_singleton_unions: bool = setting(
        "flatten.singleton.unions", True, doc="Whether a choice of a single schema is that schema."
    )
    ignore_default_for_nullables: bool = setting(
        "ignore.default.for.nullables",
        False,
        doc="Whether nulls in optional fields stay, also if there is a default.",
    )


class JsonSchemaConverter(RegistryConverter[JsonSchemaConverterConfig]):
    """JSON with schemas in a registry; by the conventions of Confluent's converter of this name."""

    config_model = JsonSchemaConverterConfig
    aliases = ("io.confluent.connect.json.JsonSchemaConverter",)

    def start(self) -> None:
        """Get ready."""
        config = self.config
        self._rules = JsonRules(
            additional_properties=config.object_additional_properties,
            optional_if_not_required=config.use_optional_for_nonrequired,
            numeric_decimals=config.decimal_format == "NUMERIC",
            flatten_singleton_unions=config.flatten_singleton_unions,
            ignore_default_for_nullables=config.ignore_default_for_nullables,
        )
        super().start()

    def writer(self, schema: Schema | None) -> SchemaWriter:
        """Return what writes values by the JSON schema made of their own."""
        described = to_json_schema(_required(schema), self._rules)
        registered = RegisteredSchema(text=json.dumps(described), kind=_JSON)
        validate = _validator(document(described, {})) if self.config.fail_invalid_schema else None
        return _JsonWriter(registered, _required(schema), self._rules, validate)

    def latest_writer(self, schema: Schema | None, latest: RegisteredSchema) -> SchemaWriter:
        """Return what writes values that a JSON schema of the registry allows."""
        return _JsonWriter(latest, _required(schema), self._rules, _validator(self._document(latest)))

    def reader(self, registered: RegisteredSchema) -> SchemaReader:
        """Return what reads values of a JSON schema."""
        found = self._document(registered)
        validate = _validator(found) if self.config.fail_invalid_schema else None
        return _JsonReader(to_connect(found, self._rules), validate)

    def _document(self, registered: RegisteredSchema) -> JsonDocument:
        if registered.kind != _JSON:
            raise DataError(f"the schema is one of {registered.kind}, not of {_JSON}")
        try:
            references = {name: json.loads(each.text) for name, each in self.references(registered)}
            return document(json.loads(registered.text), references)
        except ValueError as error:
            raise DataError(f"no JSON schema: {error}") from None


class _JsonWriter:
    def __init__(
        self,
        registered: RegisteredSchema,
        schema: Schema,
        rules: JsonRules,
        validate: Callable[[Any], None] | None,
    ) -> None:
        self.registered = registered
        title = json.loads(registered.text).get("title")
        self.record_name = title if isinstance(title, str) else None
        self._prepare = value_writer(schema, rules)
        self._validate = validate
        self._encode = msgspec.json.Encoder(decimal_format="number").encode

    def write(self, value: Any) -> bytes:
        """Return a value as JSON."""
        prepared = self._prepare(value)
        if self._validate is not None:
            self._validate(prepared)
        return self._encode(prepared)


class _JsonReader:
    def __init__(self, schema: Schema, validate: Callable[[Any], None] | None) -> None:
        self._schema = schema
        self._convert = value_reader(schema)
        self._validate = validate
        hook = Decimal if holds_decimals(schema) else None
        self._decode = msgspec.json.Decoder(float_hook=hook).decode

    def read(self, data: bytes, start: int, indexes: bytes | None) -> SchemaAndValue:
        """Return a value of JSON."""
        del indexes  # JSON has none.
        try:
            value = self._decode(memoryview(data)[start:])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ArithmeticError) as error:
            raise DataError(f"not JSON: {error}") from None
        if self._validate is not None:
            self._validate(value)
        return SchemaAndValue(self._schema, self._convert(value))


def _required(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("a value without schema has no JSON schema that could be registered")
    return schema


def _validator(found: JsonDocument) -> Callable[[Any], None]:
    kind = validator_for(found.schema, default=jsonschema.Draft7Validator)
    try:
        kind.check_schema(found.schema)
    except jsonschema.SchemaError as error:
        raise DataError(f"no valid JSON schema: {error.message}") from None
    validator = kind(found.schema, registry=found.registry)

    def validate(value: Any) -> None:
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if error is not None:
            raise DataError(f"the JSON schema does not allow the value: {error.json_path}: {error.message:.200}")

    return validate
