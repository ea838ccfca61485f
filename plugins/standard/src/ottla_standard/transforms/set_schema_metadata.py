"""SetSchemaMetadata: another name or version of the schema. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ottla_sdk import ConnectRecord, DataError, Importance, Problem, Schema, SchemaAndValue, Type, setting
from ottla_sdk.schema_cache import SchemaCache
from ottla_standard.transforms.part import (
    SCHEMA_CACHE_SIZE,
    NullConfig,
    Part,
    PartTransform,
    field_value,
    java_names,
)


class SetSchemaMetadataConfig(NullConfig):
    """Settings of SetSchemaMetadata."""

    schema_name: str | None = setting("schema.name", None, doc="The new name.", importance=Importance.HIGH)
    schema_version: int | None = setting("schema.version", None, doc="The new version.", importance=Importance.HIGH)

    def check(self) -> Iterable[Problem]:
        """Look for something to do."""
        if self.schema_name is None and self.schema_version is None:
            yield Problem("", "neither schema.name nor schema.version is set")


class SetSchemaMetadata(PartTransform[SetSchemaMetadataConfig]):
    """Gives the schema another name, another version, or both."""

    config_model = SetSchemaMetadataConfig

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._schemas = SchemaCache(self._renamed, SCHEMA_CACHE_SIZE)

    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Return the value with the other schema."""
        if schema is None:
            if value is None:
                return SchemaAndValue(None, None)
            raise DataError(f"the {self.part.value} has no schema whose name or version could be set")
        if schema.type is Type.STRUCT and isinstance(value, dict):
            replace_null = self.config.replace_null_with_default
            value = {each.name: field_value(value, each, replace_null) for each in schema.fields}
        return SchemaAndValue(self._schemas.get(schema), value)

    def _renamed(self, schema: Schema) -> Schema:
        name, version = self.config.schema_name, self.config.schema_version
        return replace(
            schema,
            name=schema.name if name is None else name,
            version=schema.version if version is None else version,
        )


class SetSchemaMetadataKey(SetSchemaMetadata):
    """Gives the key's schema another name, another version, or both."""

    part = Part.KEY
    aliases = java_names("SetSchemaMetadata$Key")


class SetSchemaMetadataValue(SetSchemaMetadata):
    """Gives the value's schema another name, another version, or both."""

    part = Part.VALUE
    aliases = java_names("SetSchemaMetadata$Value")
