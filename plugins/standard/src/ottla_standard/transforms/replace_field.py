"""ReplaceField: some fields only, or under other names. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla_sdk import ConnectRecord, Field, Problem, Schema, SchemaAndValue, setting
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

_PURPOSE = "replacing fields"


class ReplaceFieldConfig(NullConfig):
    """Settings of ReplaceField."""

    exclude: CommaSeparated = setting("exclude", (), doc="Fields to drop, also if they are included.")
    include: CommaSeparated = setting("include", (), doc="The only fields to keep; all if none are named.")
    renames: CommaSeparated = setting("renames", (), doc="Fields and their new names, such as `id:key,ts:time`.")

    def check(self) -> Iterable[Problem]:
        """Look into the renames."""
        for each in self.renames:
            old, _, new = each.partition(":")
            if not old or not new or ":" in new:
                yield Problem("renames", f"{each!r} is no OLD:NEW")


class _Replaced(NamedTuple):
    """A schema, and the fields of the old one that its fields are made of, in order."""

    schema: Schema
    fields: tuple[Field, ...]


class ReplaceField(PartTransform[ReplaceFieldConfig]):
    """Drops and renames fields."""

    config_model = ReplaceFieldConfig

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._renames = dict(each.split(":") for each in self.config.renames)
        self._exclude = frozenset(self.config.exclude)
        self._include = frozenset(self.config.include)
        self._schemas = SchemaCache(self._replaced, SCHEMA_CACHE_SIZE)

    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Drop and rename; null stays null."""
        if value is None:
            return SchemaAndValue(schema, value)
        if schema is None:
            fields = require_map(value, _PURPOSE)
            return SchemaAndValue(
                None, {self._renames.get(name, name): each for name, each in fields.items() if self._keeps(name)}
            )
        struct = require_struct(schema, value, _PURPOSE)
        new_schema, old_fields = self._schemas.get(schema)
        replace_null = self.config.replace_null_with_default
        pairs = zip(new_schema.fields, old_fields, strict=True)
        return SchemaAndValue(new_schema, {new.name: field_value(struct, old, replace_null) for new, old in pairs})

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _replaced(self, schema: Schema) -> _Replaced:
        kept = tuple(each for each in schema.fields if self._keeps(each.name))
        renamed = tuple(Field(self._renames.get(each.name, each.name), each.schema) for each in kept)
        return _Replaced(struct_like(schema, renamed), kept)


class ReplaceFieldKey(ReplaceField):
    """Drops and renames fields of the key."""

    part = Part.KEY
    aliases = java_names("ReplaceField$Key")


class ReplaceFieldValue(ReplaceField):
    """Drops and renames fields of the value."""

    part = Part.VALUE
    aliases = java_names("ReplaceField$Value")
