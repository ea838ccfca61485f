"""The Protobuf converter."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from ottla_schema_registry.proto_files import read_files, with_builtin_imports
from ottla_schema_registry.protobuf.conventions import ProtobufRules
from ottla_schema_registry.protobuf.message_types import MessageTypes
from ottla_schema_registry.protobuf.proto_text import to_text
from ottla_schema_registry.protobuf.read_plan import ReadPlan, read_plan
from ottla_schema_registry.protobuf.schema_to_proto import to_proto
from ottla_schema_registry.protobuf.write_plan import message_writer
from ottla_schema_registry.registry.client import RegisteredSchema
from ottla_schema_registry.registry.config import RegistryConfig
from ottla_schema_registry.registry_converter import RegistryConverter, SchemaReader, SchemaWriter
from ottla_schema_registry.wire_format import read_indexes, write_indexes
from ottla_sdk import DataError, Schema, SchemaAndValue, setting

_PROTOBUF = "PROTOBUF"
_MESSAGE_TYPES_MAX = 1000


class ProtobufConverterConfig(RegistryConfig):
    """Settings of `ProtobufConverter`."""

    enhanced_protobuf_schema_support: bool = setting(
        "enhanced.protobuf.schema.support",
        False,
        doc="Whether the names of structs and enums have the Protobuf package in them.",
    )
    scrub_invalid_names: bool = setting(
        "scrub.invalid.names", False, doc="Whether characters that Protobuf does not allow in names are replaced."
    )
    int_for_enums: bool = setting("int.for.enums", False, doc="Whether enums are numbers rather than their names.")
    optional_for_nullables: bool = setting(
        "optional.for.nullables",
        False,
        doc="Whether optional fields are `optional` in Protobuf. Without this and `wrapper.for.nullables`, a null "
        "number becomes 0, and a null text an empty one: Protobuf cannot tell them apart.",
    )
    wrapper_for_nullables: bool = setting(
        "wrapper.for.nullables",
        False,
        doc="Whether optional fields are wrapper messages, such as google.protobuf.StringValue.",
    )
    generate_index_for_unions: bool = setting(
        "generate.index.for.unions",
        True,
        doc="Whether the field that stands for a oneof has the oneof's number in its name, as in `choice_0`.",
    )
    flatten_unions: bool = setting(
        "flatten.unions", False, doc="Whether the members of a oneof are fields of the struct itself."
    )
    ignore_default_for_nullables: bool = setting(
        "ignore.default.for.nullables",
        False,
        doc="Whether nulls in optional fields stay, also if there is a default.",
    )


class ProtobufConverter(RegistryConverter[ProtobufConverterConfig]):
    """Protobuf, with a schema registry; by the conventions of Confluent's converter of this name."""

    config_model = ProtobufConverterConfig
    aliases = ("io.confluent.connect.protobuf.ProtobufConverter",)

    def start(self) -> None:
        """Get ready."""
        config = self.config
        self._rules = ProtobufRules(
            enhanced=config.enhanced_protobuf_schema_support,
            scrub_names=config.scrub_invalid_names,
            int_for_enums=config.int_for_enums,
            optional_for_nullables=config.optional_for_nullables,
            wrapper_for_nullables=config.wrapper_for_nullables,
            index_for_unions=config.generate_index_for_unions,
            flatten_unions=config.flatten_unions,
            ignore_default_for_nullables=config.ignore_default_for_nullables,
        )
        super().start()

    def writer(self, schema: Schema | None) -> SchemaWriter:
        """Return what writes values by the Protobuf message made of their schema."""
        made = to_proto(_required(schema), self._rules)
        registered = RegisteredSchema(text=to_text(made.file), kind=_PROTOBUF)
        return _ProtobufWriter(
            registered,
            MessageTypes(*with_builtin_imports(made.file, {})),
            made.message,
            _required(schema),
            self._rules,
        )

    def latest_writer(self, schema: Schema | None, latest: RegisteredSchema) -> SchemaWriter:
        """Return what writes values by the first message of a schema of the registry, or the one of their name."""
        types = self._types(latest)
        name = to_proto(_required(schema), self._rules).message
        try:
            types.indexes(name)
        except DataError:
            name = types.find((0,)).full_name
        return _ProtobufWriter(latest, types, name, _required(schema), self._rules)

    def reader(self, registered: RegisteredSchema) -> SchemaReader:
        """Return what reads values of a Protobuf schema."""
        return _ProtobufReader(self._types(registered), self._rules)

    def _types(self, registered: RegisteredSchema) -> MessageTypes:
        if registered.kind != _PROTOBUF:
            raise DataError(f"the schema is one of {registered.kind}, not of {_PROTOBUF}")
        references = {name: each.text for name, each in self.references(registered)}
        return MessageTypes(*read_files(registered.text, references))


class _ProtobufWriter:
    """Writes values of a Connect schema as messages of one type."""

    def __init__(
        self, registered: RegisteredSchema, types: MessageTypes, name: str, schema: Schema, rules: ProtobufRules
    ) -> None:
        self.registered = registered
        self.record_name: str | None = name
        self._prefix = write_indexes(types.indexes(name))
        self._write = message_writer(types.named(name), schema, rules)

    def write(self, value: Any) -> bytes:
        """Return the way to the message type, and the message."""
        return self._prefix + self._write(value)


class _ProtobufReader:
    """Reads messages of the types of a schema."""

    def __init__(self, types: MessageTypes, rules: ProtobufRules) -> None:
        self._types = types
        self._rules = rules
        self._plan = lru_cache(_MESSAGE_TYPES_MAX)(self._made_plan)

    def read(self, data: bytes, start: int, indexes: bytes | None) -> SchemaAndValue:
        """Return what a message says."""
        if indexes is None:
            way, start = read_indexes(data, start)
        else:
            way, _ = read_indexes(indexes, 0)
        plan, parse = self._plan(way)
        try:
            message = parse(data[start:])
        except DecodeError as error:
            raise DataError(f"no Protobuf message of its type: {error}") from None
        return SchemaAndValue(plan.schema, plan.read(message))

    def _made_plan(self, way: tuple[int, ...]) -> tuple[ReadPlan, Callable[[bytes], Any]]:
        descriptor = self._types.find(way)
        return read_plan(descriptor, self._rules), message_factory.GetMessageClass(descriptor).FromString


def _required(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("a value without schema has no Protobuf message that could be registered")
    return schema
