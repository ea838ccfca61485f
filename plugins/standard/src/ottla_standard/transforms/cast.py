"""Cast: fields, or the whole key or value, to another type. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ottla_sdk import ConnectRecord, Field, Importance, Problem, Schema, SchemaAndValue, Type, setting
from ottla_sdk.config import CommaSeparated
from ottla_sdk.schema import DATE_NAME, DECIMAL_NAME, NO_DEFAULT, TIME_NAME, TIMESTAMP_NAME
from ottla_sdk.schema_cache import SchemaCache
from ottla_standard.transforms.cast_value import TARGET_TYPES, cast_value
from ottla_standard.transforms.part import (
    SCHEMA_CACHE_SIZE,
    NullConfig,
    Part,
    PartTransform,
    field_value,
    java_names,
    require_map,
    require_struct,
)

_LOGICAL_NAMES = (DECIMAL_NAME, DATE_NAME, TIME_NAME, TIMESTAMP_NAME)
_PURPOSE = "casting fields"


class CastConfig(NullConfig):
    """Settings of Cast."""

    spec: CommaSeparated = setting(
        "spec",
        doc="Fields and their types, such as `price:float64,id:string`, or one type for the whole. Types are int8, "
        "int16, int32, int64, float32, float64, boolean and string; bytes can be cast to string only, as base64.",
        importance=Importance.HIGH,
        min_length=1,
    )

    def check(self) -> Iterable[Problem]:
        """Look into the spec."""
        if any(":" not in each for each in self.spec) and len(self.spec) > 1:
            yield Problem("spec", "a type for the whole must stand alone")
        for each in self.spec:
            name = each.rpartition(":")[2].strip()
            if each.count(":") > 1:
                yield Problem("spec", f"{each!r} is no FIELD:TYPE")
            elif name.upper() not in TARGET_TYPES:
                yield Problem("spec", f"{name!r} is no type; there are {', '.join(t.lower() for t in TARGET_TYPES)}")


class Cast(PartTransform[CastConfig]):
    """Casts fields, or the whole, to other types."""

    config_model = CastConfig

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._whole: Type | None = None
        self._types: dict[str, Type] = {}
        for each in self.config.spec:
            field, _, name = each.rpartition(":")
            target = Type(name.strip().upper())
            if field:
                self._types[field.strip()] = target
            else:
                self._whole = target
        self._schemas = SchemaCache(self._cast_schema, SCHEMA_CACHE_SIZE)

    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Cast; null stays null."""
        if value is None:
            return SchemaAndValue(schema, value)
        if self._whole is not None:
            cast_schema = None if schema is None else self._schemas.get(schema)
            return SchemaAndValue(cast_schema, cast_value(value, self._whole))
        if schema is None:
            fields = require_map(value, _PURPOSE)
            cast = {name: cast_value(fields.get(name), target) for name, target in self._types.items()}
            return SchemaAndValue(None, fields | cast)
        struct = require_struct(schema, value, _PURPOSE)
        made = {}
        for each in schema.fields:
            found = field_value(struct, each, self.config.replace_null_with_default)
            target = self._types.get(each.name)
            made[each.name] = found if target is None else cast_value(found, target)
        return SchemaAndValue(self._schemas.get(schema), made)

    def _cast_schema(self, schema: Schema) -> Schema:
        if self._whole is not None:
            is_logical = schema.name in _LOGICAL_NAMES  # The name would promise a date, and there is a number.
            return Schema(
                type=self._whole,
                optional=schema.optional,
                default=_cast_default(schema, self._whole),
                name=None if is_logical else schema.name,
                version=None if is_logical else schema.version,
                doc=schema.doc,
                parameters={} if is_logical else schema.parameters,
            )
        default = schema.default
        if schema.has_default and isinstance(default, dict):
            known = {name: target for name, target in self._types.items() if name in schema.field_by_name}
            default = default | {name: cast_value(default.get(name), target) for name, target in known.items()}
        return replace(schema, fields=tuple(map(self._cast_field, schema.fields)), default=default)

    def _cast_field(self, field: Field) -> Field:
        target = self._types.get(field.name)
        if target is None:
            return field
        default = _cast_default(field.schema, target)
        return Field(field.name, Schema(type=target, optional=field.schema.optional, default=default))


def _cast_default(schema: Schema, target: Type) -> Any:
    return cast_value(schema.default, target) if schema.has_default else NO_DEFAULT


class CastKey(Cast):
    """Casts fields of the key, or the whole key, to other types."""

    part = Part.KEY
    aliases = java_names("Cast$Key")


class CastValue(Cast):
    """Casts fields of the value, or the whole value, to other types."""

    part = Part.VALUE
    aliases = java_names("Cast$Value")
