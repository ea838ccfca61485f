"""Flatten: the fields of nested structs or maps as fields of the outermost one. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla_sdk import ConnectRecord, DataError, Field, PluginConfig, Schema, SchemaAndValue, Type, setting
from ottla_sdk.schema_cache import SchemaCache
from ottla_standard.transforms.part import (
    SCHEMA_CACHE_SIZE,
    Part,
    PartTransform,
    field_value,
    java_names,
    require_map,
    require_struct,
    struct_like,
)

_PURPOSE = "flattening"


class FlattenConfig(PluginConfig):
    """Settings of Flatten."""

    delimiter: str = setting("delimiter", ".", doc="What stands between the names of an outer and an inner field.")


class Flatten(PartTransform[FlattenConfig]):
    """Makes fields of nested structs or maps fields of the outermost one; arrays stay as they are."""

    config_model = FlattenConfig

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._schemas = SchemaCache(self._flat_schema, SCHEMA_CACHE_SIZE)

    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Flatten; null stays null."""
        if value is None:
            return SchemaAndValue(schema, value)
        flat: dict[str, Any] = {}
        if schema is None:
            self._flatten_map(require_map(value, _PURPOSE), "", flat)
            return SchemaAndValue(None, flat)
        struct = require_struct(schema, value, _PURPOSE)
        flat_schema = self._schemas.get(schema)
        flat = dict.fromkeys(flat_schema.field_by_name)
        self._flatten_struct(schema, struct, "", flat)
        return SchemaAndValue(flat_schema, flat)

    def _flatten_map(self, value: dict[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for name, each in value.items():
            if isinstance(each, dict):
                self._flatten_map(each, f"{prefix}{name}{self.config.delimiter}", flat)
            else:
                flat[f"{prefix}{name}"] = each

    def _flatten_struct(self, schema: Schema, value: dict[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for each in schema.fields:
            found = field_value(value, each, replace_null=True)
            if each.schema.type is not Type.STRUCT:
                flat[prefix + each.name] = found
            elif found is not None:
                self._flatten_struct(each.schema, found, f"{prefix}{each.name}{self.config.delimiter}", flat)

    def _flat_schema(self, schema: Schema) -> Schema:
        fields: list[Field] = []
        self._collect(schema, "", schema.optional, schema.default if schema.has_default else None, fields)
        return struct_like(schema, tuple(fields))

    def _collect(self, schema: Schema, prefix: str, optional: bool, defaults: Any, fields: list[Field]) -> None:
        """Collect the flat fields: optional if a struct around them is, with the defaults that it has for them."""
        for each in schema.fields:
            name = prefix + each.name
            inner = each.schema
            default = inner.default if inner.has_default and inner.default is not None else None
            if default is None and isinstance(defaults, dict):
                default = defaults.get(each.name)
            if inner.type is Type.MAP:
                raise DataError(f"flattening does not support maps with a schema, such as the field {name}")
            if inner.type is Type.STRUCT:
                self._collect(inner, name + self.config.delimiter, optional or inner.optional, default, fields)
                continue
            flat = replace(inner, optional=optional or inner.optional)
            fields.append(Field(name, flat if default is None else replace(flat, default=default)))


class FlattenKey(Flatten):
    """Makes fields of structs or maps within the key fields of the key itself."""

    part = Part.KEY
    aliases = java_names("Flatten$Key")


class FlattenValue(Flatten):
    """Makes fields of structs or maps within the value fields of the value itself."""

    part = Part.VALUE
    aliases = java_names("Flatten$Value")
