"""What transforms of a record's key or value have in common. Pure.

A transform comes as two classes that differ in the part they work on. Values are never changed in place: other
records, or whoever made the record, may hold the same objects.
"""

import enum
from abc import abstractmethod
from typing import Any, ClassVar, Generic

from ottla_sdk import ConnectRecord, DataError, Field, PluginConfig, Schema, SchemaAndValue, Transform, Type, setting
from ottla_sdk.plugin import ConfigT

SCHEMA_CACHE_SIZE = 256
"""How many schemas a transform remembers; a source of more tables than that pays for making some again."""

_JAVA_PACKAGE = "org.apache.kafka.connect.transforms."


class Part(enum.Enum):
    """The part of a record that a transform works on."""

    KEY = "key"
    VALUE = "value"


class NullConfig(PluginConfig):
    """The setting of all transforms that read fields."""

    replace_null_with_default: bool = setting(
        "replace.null.with.default",
        True,
        doc="Whether a field's default stands for a null in it. Otherwise the null stays.",
    )


class PartTransform(Transform[ConfigT], Generic[ConfigT]):
    """A transform of a record's key or value.

    Attributes:
        part: which of them.
    """

    part: ClassVar[Part]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the part as `change` has it."""
        if self.part is Part.KEY:
            changed = self.change(record, record.key_schema, record.key)
            if changed.value is record.key and changed.schema is record.key_schema:
                return record
            return record.replaced(key_schema=changed.schema, key=changed.value)
        changed = self.change(record, record.value_schema, record.value)
        if changed.value is record.value and changed.schema is record.value_schema:
            return record
        return record.replaced(value_schema=changed.schema, value=changed.value)

    @abstractmethod
    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Return the part's new schema and value; the same objects if nothing changes.

        Raises:
            DataError: the part cannot be transformed.
        """


def java_names(name: str) -> tuple[str, str]:
    """Return the names that a class has in Java, such as ``org.apache.kafka.connect.transforms.Cast$Value``."""
    return _JAVA_PACKAGE + name, name


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    """Return a value without schema that is a map of fields; raises DataError if it is not."""
    if not isinstance(value, dict):
        raise DataError(f"{purpose} needs a map where there is no schema, not {_kind(value)}")
    return value


def require_struct(schema: Schema, value: Any, purpose: str) -> dict[str, Any]:
    """Return the value of a struct; raises DataError if it is none."""
    if schema.type is not Type.STRUCT or not isinstance(value, dict):
        raise DataError(f"{purpose} needs a struct, not {_kind(value)} with the schema {schema.type}")
    return value


def field_value(value: dict[str, Any], field: Field, replace_null: bool) -> Any:
    """Return a field of a struct: None, or its default, if it is null or missing."""
    found = value.get(field.name)
    if found is None and replace_null and field.schema.has_default:
        return field.schema.default
    return found


def struct_like(schema: Schema, fields: tuple[Field, ...]) -> Schema:
    """Return a struct with other fields, otherwise described as `schema`; it is not optional, as in Kafka."""
    return Schema(
        type=Type.STRUCT,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        fields=fields,
    )


def _kind(value: Any) -> str:
    return "null" if value is None else f"a value of the type {type(value).__name__}"
