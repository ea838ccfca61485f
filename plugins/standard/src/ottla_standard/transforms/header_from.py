"""HeaderFrom: fields copied or moved into headers. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ottla_sdk import ConnectRecord, DataError, Header, Importance, Problem, Schema, SchemaAndValue, setting
from ottla_sdk.config import CommaSeparated
from ottla_sdk.schema_cache import SchemaCache
from ottla_standard.transforms.part import (
    SCHEMA_CACHE_SIZE,
    NullConfig,
    Part,
    PartTransform,
    field_value,
    java_names,
    require_map,
    require_struct,
    struct_like,
)


class HeaderFromConfig(NullConfig):
    """Settings of HeaderFrom."""

    fields: CommaSeparated = setting("fields", doc="The fields.", importance=Importance.HIGH, min_length=1)
    headers: CommaSeparated = setting(
        "headers",
        doc="Names of the headers, as many and in the same order as the fields.",
        importance=Importance.HIGH,
        min_length=1,
    )
    operation: Literal["move", "copy"] = setting(
        "operation", doc="Whether the fields go (`move`) or stay (`copy`).", importance=Importance.HIGH
    )

    def check(self) -> Iterable[Problem]:
        """Count."""
        if len(self.fields) != len(self.headers):
            yield Problem("headers", f"{len(self.headers)} headers for {len(self.fields)} fields")


class HeaderFrom(PartTransform[HeaderFromConfig]):
    """Copies or moves fields into headers."""

    config_model = HeaderFromConfig

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._purpose = f"header {self.config.operation}"
        self._schemas = SchemaCache(self._moved_schema, SCHEMA_CACHE_SIZE)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the headers behind those it has, and without the fields if they move."""
        made = super().apply(record)
        part = (record.key_schema, record.key) if self.part is Part.KEY else (record.value_schema, record.value)
        return made.replaced(headers=(*record.headers, *self._headers(*part)))

    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Return what is left of the part."""
        if schema is None:
            fields = require_map(value, self._purpose)
            if self.config.operation == "copy":
                return SchemaAndValue(None, value)
            return SchemaAndValue(None, {k: each for k, each in fields.items() if k not in self.config.fields})
        struct = require_struct(schema, value, self._purpose)
        if self.config.operation == "copy":
            return SchemaAndValue(schema, value)
        moved = self._schemas.get(schema)
        replace_null = self.config.replace_null_with_default
        return SchemaAndValue(moved, {each.name: field_value(struct, each, replace_null) for each in moved.fields})

    def _headers(self, schema: Schema | None, value: dict[str, Any]) -> Iterable[Header]:
        for name, header in zip(self.config.fields, self.config.headers, strict=True):
            if schema is None:
                yield Header(header, value.get(name))
                continue
            field = schema.field_by_name.get(name)
            if field is None:
                raise DataError(f"{self._purpose}: there is no field {name!r} in the {self.part.value}'s schema")
            yield Header(header, field_value(value, field, self.config.replace_null_with_default), field.schema)

    def _moved_schema(self, schema: Schema) -> Schema:
        return struct_like(schema, tuple(each for each in schema.fields if each.name not in self.config.fields))


class HeaderFromKey(HeaderFrom):
    """Copies or moves fields of the key into headers."""

    part = Part.KEY
    aliases = java_names("HeaderFrom$Key")


class HeaderFromValue(HeaderFrom):
    """Copies or moves fields of the value into headers."""

    part = Part.VALUE
    aliases = java_names("HeaderFrom$Value")
