"""HoistField: the whole as the only field of a struct or map. Pure."""

from collections.abc import Mapping
from typing import Any

from ottla_sdk import ConnectRecord, PluginConfig, Schema, SchemaAndValue, setting
from ottla_sdk.schema import struct_schema
from ottla_sdk.schema_cache import SchemaCache
from ottla_standard.transforms.part import SCHEMA_CACHE_SIZE, Part, PartTransform, java_names


class HoistFieldConfig(PluginConfig):
    """Settings of HoistField."""

    field: str = setting("field", doc="Name of the field that will hold the whole.")


class HoistField(PartTransform[HoistFieldConfig]):
    """Puts the whole into a struct or map, as its only field."""

    config_model = HoistFieldConfig

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._schemas = SchemaCache(lambda schema: struct_schema({self.config.field: schema}), SCHEMA_CACHE_SIZE)

    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Wrap it, be it null."""
        return SchemaAndValue(None if schema is None else self._schemas.get(schema), {self.config.field: value})


class HoistFieldKey(HoistField):
    """Puts the key into a struct or map, as its only field."""

    part = Part.KEY
    aliases = java_names("HoistField$Key")


class HoistFieldValue(HoistField):
    """Puts the value into a struct or map, as its only field."""

    part = Part.VALUE
    aliases = java_names("HoistField$Value")
