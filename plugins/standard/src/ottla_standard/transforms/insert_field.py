"""InsertField: topic, partition, offset, timestamp or a fixed text as fields. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla_sdk import ConnectRecord, DataError, Field, Problem, Schema, SchemaAndValue, SinkRecord, setting
from ottla_sdk.logical_types import ms_to_timestamp
from ottla_sdk.schema import INT32, INT64, STRING, TIMESTAMP
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

_OPTIONALITY = " With `!` behind its name the field is required, with `?` or nothing it is optional."
_PURPOSE = "inserting fields"


class InsertFieldConfig(NullConfig):
    """Settings of InsertField."""

    topic_field: str | None = setting("topic.field", None, doc="Field for the topic." + _OPTIONALITY)
    partition_field: str | None = setting("partition.field", None, doc="Field for the partition." + _OPTIONALITY)
    offset_field: str | None = setting(
        "offset.field", None, doc="Field for the offset; for sink connectors only." + _OPTIONALITY
    )
    timestamp_field: str | None = setting("timestamp.field", None, doc="Field for the timestamp." + _OPTIONALITY)
    static_field: str | None = setting("static.field", None, doc="Field for a fixed text." + _OPTIONALITY)
    static_value: str | None = setting("static.value", None, doc="The fixed text.")

    def check(self) -> Iterable[Problem]:
        """Look for something to do."""
        fields = (self.topic_field, self.partition_field, self.offset_field, self.timestamp_field, self.static_field)
        if all(each is None for each in fields):
            keys = ", ".join(f"{each}.field" for each in _SCHEMAS)
            yield Problem("", f"no field to insert: set one of {keys}")
        if self.static_field is not None and self.static_value is None:
            yield Problem("static.value", f"must be set, for the field {self.static_field}")


class _Insertion(NamedTuple):
    """A field to insert: its name in the configuration model, its own, and its schema."""

    source: str
    name: str
    schema: Schema


_SCHEMAS = {"topic": STRING, "partition": INT32, "offset": INT64, "timestamp": TIMESTAMP, "static": STRING}


class InsertField(PartTransform[InsertFieldConfig]):
    """Inserts fields that say where a record comes from, or a fixed text."""

    config_model = InsertFieldConfig

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._insertions = []
        for source, schema in _SCHEMAS.items():
            written = getattr(self.config, f"{source}_field")
            if written is not None:
                name = written[:-1] if written.endswith(("!", "?")) else written
                is_required = written.endswith("!")
                self._insertions.append(_Insertion(source, name, schema if is_required else schema.as_optional()))
        self._schemas = SchemaCache(self._extended, SCHEMA_CACHE_SIZE)

    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Insert; null stays null."""
        if value is None:
            return SchemaAndValue(schema, value)
        if schema is None:
            return SchemaAndValue(None, require_map(value, _PURPOSE) | self._inserted(record, with_schema=False))
        struct = require_struct(schema, value, _PURPOSE)
        replace_null = self.config.replace_null_with_default
        made = {each.name: field_value(struct, each, replace_null) for each in schema.fields}
        return SchemaAndValue(self._schemas.get(schema), made | self._inserted(record, with_schema=True))

    def _inserted(self, record: ConnectRecord, *, with_schema: bool) -> dict[str, Any]:
        found = {}
        for each in self._insertions:
            value = self._of(each.source, record)
            if value is None and not with_schema:
                continue
            is_time = each.source == "timestamp" and value is not None and with_schema
            found[each.name] = ms_to_timestamp(value) if is_time else value
        return found

    def _of(self, source: str, record: ConnectRecord) -> Any:
        if source == "topic":
            return record.topic
        if source == "partition":
            return record.partition
        if source == "timestamp":
            return record.timestamp_ms
        if source == "static":
            return self.config.static_value
        if not isinstance(record, SinkRecord):
            raise DataError("offset.field is for sink connectors: a record of a source has no offset yet")
        return record.offset

    def _extended(self, schema: Schema) -> Schema:
        new = {each.name for each in self._insertions}
        kept = tuple(each for each in schema.fields if each.name not in new)
        return struct_like(schema, (*kept, *(Field(each.name, each.schema) for each in self._insertions)))


class InsertFieldKey(InsertField):
    """Inserts fields into the key."""

    part = Part.KEY
    aliases = java_names("InsertField$Key")


class InsertFieldValue(InsertField):
    """Inserts fields into the value."""

    part = Part.VALUE
    aliases = java_names("InsertField$Value")
