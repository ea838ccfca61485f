"""The Avro converter."""

import io
import json
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from ottla_schema_registry.avro.conventions import AvroRules
from ottla_schema_registry.avro.read_plan import NAMED_TYPES, finish_anything, read_plan
from ottla_schema_registry.avro.schema_to_avro import to_avro
from ottla_schema_registry.avro.write_plan import write_plan
from ottla_schema_registry.registry.client import AVRO, RegisteredSchema
from ottla_schema_registry.registry.config import RegistryConfig
from ottla_schema_registry.registry_converter import RegistryConverter, SchemaReader, SchemaWriter
from ottla_sdk import DataError, Schema, SchemaAndValue, setting


class AvroConverterConfig(RegistryConfig):
    """Settings of `AvroConverter`."""

    connect_meta_data: bool = setting(
        "connect.meta.data",
        True,
        doc="Whether Avro schemas keep what only Connect knows: names, versions, docs, parameters, defaults.",
    )
    enhanced_avro_schema_support: bool = setting(
        "enhanced.avro.schema.support",
        False,
        doc="Whether enums stay enums, and types of unions are told apart by their full names.",
    )
    scrub_invalid_names: bool = setting(
        "scrub.invalid.names", False, doc="Whether characters that Avro does not allow in names are replaced."
    )
    allow_optional_map_keys: bool = setting(
        "allow.optional.map.keys", False, doc="Whether maps whose keys are optional text are Avro maps."
    )
    flatten_singleton_unions: bool = setting(
        "flatten.singleton.unions", True, doc="Whether a union of a single type is that type."
    )
    ignore_default_for_nullables: bool = setting(
        "ignore.default.for.nullables",
        False,
        doc="Whether nulls in optional fields stay, also if there is a default.",
    )


class AvroConverter(RegistryConverter[AvroConverterConfig]):
    """Avro, with a schema registry; by the conventions of Confluent's converter of this name."""

    config_model = AvroConverterConfig
    aliases = ("io.confluent.connect.avro.AvroConverter",)

    def start(self) -> None:
        """Get ready."""
        config = self.config
        self._rules = AvroRules(
            connect_meta_data=config.connect_meta_data,
            enhanced=config.enhanced_avro_schema_support,
            scrub_names=config.scrub_invalid_names,
            optional_map_keys=config.allow_optional_map_keys,
            flatten_singleton_unions=config.flatten_singleton_unions,
            ignore_default_for_nullables=config.ignore_default_for_nullables,
        )
        super().start()

    def writer(self, schema: Schema | None) -> SchemaWriter:
        """Return what writes values by the Avro schema made of their own."""
        avro = to_avro(schema, self._rules)
        return _AvroWriter(RegisteredSchema(text=json.dumps(avro)), schema, [], self._rules)

    def latest_writer(self, schema: Schema | None, latest: RegisteredSchema) -> SchemaWriter:
        """Return what writes values by an Avro schema of the registry."""
        return _AvroWriter(latest, schema, self._texts(latest), self._rules)

    def reader(self, registered: RegisteredSchema) -> SchemaReader:
        """Return what reads values of an Avro schema."""
        return _AvroReader(registered, self._texts(registered), self._rules)

    def _texts(self, registered: RegisteredSchema) -> list[str]:
        return [each.text for _, each in self.references(registered)]


class _ParsedSchema:
    """An Avro schema, with and without its logical types.

    Attributes:
        avro: the schema, names in full.
        plain: the same without logical types, for fastavro to write and read.
        named: the named types of both by full name.
    """

    def __init__(self, registered: RegisteredSchema, references: list[str]) -> None:
        if registered.kind != AVRO:
            raise DataError(f"the schema is one of {registered.kind}, not of AVRO")
        try:
            parsed = [json.loads(text) for text in (*references, registered.text)]
            self.named: dict[str, Any] = {}
            self.avro: Any = [fastavro.parse_schema(each, self.named, _write_hint=False) for each in parsed][-1]
            plain_named: dict[str, Any] = {}
            plain = [_without_logical_types(each) for each in parsed]
            self.plain: Any = [fastavro.parse_schema(each, plain_named) for each in plain][-1]
        except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"no Avro schema that could be used: {error}") from error

    @property
    def record_name(self) -> str | None:
        """The full name, if the schema is a named type."""
        if isinstance(self.avro, dict) and self.avro["type"] in NAMED_TYPES:
            name: str = self.avro["name"]
            return name
        return None


class _AvroWriter:
    """Writes values of a Connect schema by an Avro schema."""

    def __init__(
        self, registered: RegisteredSchema, schema: Schema | None, references: list[str], rules: AvroRules
    ) -> None:
        parsed = _ParsedSchema(registered, references)
        self.registered = registered
        self.record_name = parsed.record_name
        self._plain = parsed.plain
        self._prepare = write_plan(parsed.avro, schema, parsed.named, rules)

    def write(self, value: Any) -> bytes:
        """Return a value in Avro's binary form."""
        written = io.BytesIO()
        try:
            fastavro.schemaless_writer(written, self._plain, self._prepare(value))
        except (ValueError, TypeError, OverflowError, KeyError, AttributeError, IndexError) as error:
            raise DataError(f"the value cannot be written by its Avro schema: {error}") from error
        return written.getvalue()


class _AvroReader:
    """Reads values of an Avro schema."""

    def __init__(self, registered: RegisteredSchema, references: list[str], rules: AvroRules) -> None:
        parsed = _ParsedSchema(registered, references)
        plan = read_plan(parsed.avro, parsed.named, rules)
        self._plain = parsed.plain
        self._schema = None if plan is None else plan.schema
        self._finish = finish_anything if plan is None else plan.finish

    def read(self, data: bytes, start: int, indexes: bytes | None) -> SchemaAndValue:
        """Return a value of Avro's binary form."""
        del indexes  # Avro has none.
        stream = io.BytesIO(data)
        stream.seek(start)
        try:
            value = fastavro.schemaless_reader(stream, self._plain, None, return_named_type=True)
        except (ValueError, TypeError, OverflowError, KeyError, IndexError, EOFError, MemoryError) as error:
            reason = str(error) or type(error).__name__
            raise DataError(f"the value cannot be read by its Avro schema: {reason}") from error
        return SchemaAndValue(self._schema, value if self._finish is None else self._finish(value))


def _without_logical_types(avro: Any) -> Any:
    if isinstance(avro, list):
        return [_without_logical_types(each) for each in avro]
    if not isinstance(avro, dict):
        return avro
    made = {key: each for key, each in avro.items() if key != "logicalType"}
    for key in ("type", "items", "values"):
        if key in made:
            made[key] = _without_logical_types(made[key])
    if isinstance(made.get("fields"), list):
        made["fields"] = [_without_logical_types(each) for each in made["fields"]]
    return made
