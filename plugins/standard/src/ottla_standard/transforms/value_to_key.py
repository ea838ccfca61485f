"""ValueToKey: a key made of fields of the value. Pure."""

from collections.abc import Mapping

from ottla_sdk import ConnectRecord, DataError, Field, Importance, Schema, Transform, Type, setting
from ottla_sdk.config import CommaSeparated
from ottla_sdk.schema_cache import SchemaCache
from ottla_standard.transforms.part import (
    SCHEMA_CACHE_SIZE,
    NullConfig,
    field_value,
    java_names,
    require_map,
    require_struct,
)

_PURPOSE = "making a key of the value's fields"


class ValueToKeyConfig(NullConfig):
    """Settings of `ValueToKey`."""

    fields: CommaSeparated = setting(
        "fields", doc="The fields of the value that make the key.", importance=Importance.HIGH, min_length=1
    )


class ValueToKey(Transform[ValueToKeyConfig]):
    """Replaces the key by a struct or map of some fields of the value."""

    config_model = ValueToKeyConfig
    aliases = java_names("ValueToKey")

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._schemas = SchemaCache(self._key_schema, SCHEMA_CACHE_SIZE)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the new key."""
        if record.value_schema is None:
            value = require_map(record.value, _PURPOSE)
            return record.replaced(key_schema=None, key={name: value.get(name) for name in self.config.fields})
        struct = require_struct(record.value_schema, record.value, _PURPOSE)
        schema = self._schemas.get(record.value_schema)
        replace_null = self.config.replace_null_with_default
        key = {each.name: field_value(struct, each, replace_null) for each in schema.fields}
        return record.replaced(key_schema=schema, key=key)

    def _key_schema(self, schema: Schema) -> Schema:
        fields = []
        for name in self.config.fields:
            field = schema.field_by_name.get(name)
            if field is None:
                raise DataError(f"there is no field {name!r} in the value's schema")
            fields.append(Field(name, field.schema))
        return Schema(type=Type.STRUCT, fields=tuple(fields))
