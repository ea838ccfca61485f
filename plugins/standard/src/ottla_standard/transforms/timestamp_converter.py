"""TimestampConverter: times as text, as numbers, as dates, as times of day, as timestamps.

Every form goes by way of the milliseconds since the epoch, as in Kafka; what is below a millisecond is lost.
Pure.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from ottla_sdk import ConnectRecord, DataError, Field, Importance, Problem, Schema, SchemaAndValue, Type, setting
from ottla_sdk.logical_types import (
    MS_PER_DAY,
    date_to_days,
    days_to_date,
    ms_to_time,
    ms_to_timestamp,
    time_to_ms,
    timestamp_to_ms,
)
from ottla_sdk.schema import DATE, DATE_NAME, INT64, STRING, TIME, TIME_NAME, TIMESTAMP, TIMESTAMP_NAME
from ottla_sdk.schema_cache import SchemaCache
from ottla_standard.java_date_format import Calendar, JavaDateFormat, compile_format
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

_PURPOSE = "converting timestamps"
_TARGET_SCHEMAS: Mapping[str, Schema] = {
    "string": STRING,
    "unix": INT64,
    "Date": DATE,
    "Time": TIME,
    "Timestamp": TIMESTAMP,
}
_UNITS_PER_SECOND = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


class TimestampConverterConfig(NullConfig):
    """Settings of TimestampConverter."""

    field: str = setting("field", "", doc="The field; empty if the whole is a timestamp.", importance=Importance.HIGH)
    target_type: Literal["string", "unix", "Date", "Time", "Timestamp"] = setting(
        "target.type", doc="The form that is wanted.", importance=Importance.HIGH
    )
    format: str = setting(
        "format",
        "",
        doc="How text is read or written: a pattern of Java's SimpleDateFormat, such as `yyyy-MM-dd'T'HH:mm:ssX`.",
    )
    unix_precision: Literal["nanoseconds", "microseconds", "milliseconds", "seconds"] = setting(
        "unix.precision",
        "milliseconds",
        doc="The unit of numbers, read or written. What is below a millisecond is lost.",
        importance=Importance.LOW,
    )

    def check(self) -> Iterable[Problem]:
        """Compile the pattern."""
        if not self.format.strip():
            if self.target_type == "string":
                yield Problem("format", "must be set where target.type is string")
            return
        try:
            compile_format(self.format, this_year=1970)
        except ValueError as error:
            yield Problem("format", str(error))


class TimestampConverter(PartTransform[TimestampConverterConfig]):
    """Turns a time into another form."""

    calendar: ClassVar[Calendar]
    # It says which century two digits of a year mean; the package sets it.
    config_model = TimestampConverterConfig

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._format: JavaDateFormat | None = None
        if self.config.format.strip():
            self._format = compile_format(self.config.format, this_year=self.calendar.this_year())
        self._schemas = SchemaCache(self._converted_schema, SCHEMA_CACHE_SIZE)

    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Convert; null stays null."""
        name = self.config.field
        if schema is None:
            if not name or value is None:
                return SchemaAndValue(None, self._converted(None, value))
            fields = require_map(value, _PURPOSE)
            return SchemaAndValue(None, fields | {name: self._converted(None, fields.get(name))})
        if not name:
            return SchemaAndValue(self._schemas.get(schema), self._converted(schema, value))
        if value is None:
            return SchemaAndValue(self._schemas.get(schema), None)
        return SchemaAndValue(
            self._schemas.get(schema), self._converted_struct(schema, require_struct(schema, value, _PURPOSE))
        )

    def _converted_struct(self, schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for each in schema.fields:
            found = field_value(value, each, self.config.replace_null_with_default)
            made[each.name] = self._converted(each.schema, found) if each.name == self.config.field else found
        return made

    def _converted_schema(self, schema: Schema) -> Schema:
        target = _TARGET_SCHEMAS[self.config.target_type]
        if not self.config.field:
            _require_time(schema)
            return replace(target, optional=schema.optional)
        fields = tuple(
            Field(each.name, replace(target, optional=each.schema.optional))
            if each.name == self.config.field
            else each
            for each in schema.fields
        )
        default = schema.default
        if schema.has_default and isinstance(default, dict):
            default = self._converted_struct(schema, default)
        return Schema(
            type=Type.STRUCT,
            optional=schema.optional,
            default=default,
            name=schema.name,
            version=schema.version,
            doc=schema.doc,
            parameters=schema.parameters,
            fields=fields,
        )

    def _converted(self, schema: Schema | None, value: Any) -> Any:
        if schema is not None:
            _require_time(schema)
        return None if value is None else self._from_ms(self._to_ms(value))

    def _to_ms(self, value: Any) -> int:
        if isinstance(value, dt.datetime):
            return timestamp_to_ms(value)
        if isinstance(value, dt.date):
            return date_to_days(value) * MS_PER_DAY
        if isinstance(value, dt.time):
            return time_to_ms(value)
        if isinstance(value, str):
            if self._format is None:
                raise DataError(f"the timestamp {value!r:.80} is text, and no format is set")
            return self._format.parse(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return _scaled(value, _UNITS_PER_SECOND[self.config.unix_precision], 1000)
        raise DataError(f"a value of the type {type(value).__name__} is no timestamp")

    def _from_ms(self, ms: int) -> Any:
        target = self.config.target_type
        if target == "string":
            assert self._format is not None, "the configuration was checked"
            return self._format.format(ms)
        if target == "unix":
            return _scaled(ms, 1000, _UNITS_PER_SECOND[self.config.unix_precision])
        if target == "Date":
            return days_to_date(ms // MS_PER_DAY)
        return ms_to_time(ms % MS_PER_DAY) if target == "Time" else ms_to_timestamp(ms)


def _scaled(value: int, units: int, target_units: int) -> int:
    """Return a number of other units; what is lost is cut off towards zero, as Java's TimeUnit does."""
    scaled = abs(value) * target_units // units
    return scaled if value >= 0 else -scaled


def _require_time(schema: Schema) -> None:
    if schema.name in (TIMESTAMP_NAME, DATE_NAME, TIME_NAME) or schema.type in (Type.STRING, Type.INT64):
        return
    raise DataError(f"the schema {schema.name or schema.type} is none of a timestamp, date, time, text, INT64")


class TimestampConverterKey(TimestampConverter):
    """Turns a time in the key into another form."""

    part = Part.KEY
    aliases = java_names("TimestampConverter$Key")


class TimestampConverterValue(TimestampConverter):
    """Turns a time in the value into another form."""

    part = Part.VALUE
    aliases = java_names("TimestampConverter$Value")
