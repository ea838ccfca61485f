"""Schemas of keys, values and headers, and the Python values that go with them. Pure.

The types, the logical types and their names are Kafka Connect's (package `org.apache.kafka.connect.data`), so that
converters can exchange them with Java. Values are plain Python:

| type | Python value | | logical type | Python value |
|---|---|---|---|---|
| INT8 … INT64 | int | | DECIMAL | decimal.Decimal |
| FLOAT32, FLOAT64 | float | | DATE | datetime.date |
| BOOLEAN, STRING, BYTES | bool, str, bytes | | TIME | datetime.time |
| ARRAY, MAP | list, dict | | TIMESTAMP | datetime.datetime, aware, UTC, milliseconds |
| STRUCT | dict by field name | | | |

A record whose schema is None carries whatever JSON can say: None, bool, int, float, str, list, dict, and bytes.
"""

import datetime as dt
import decimal
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from ottla_sdk.errors import DataError

DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
DATE_NAME = "org.apache.kafka.connect.data.Date"
TIME_NAME = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME = "org.apache.kafka.connect.data.Timestamp"
SCALE_PARAMETER = "scale"
"""Digits after the point; the only parameter of DECIMAL."""


class Type(enum.StrEnum):
    """The type of a value; the names are Kafka Connect's."""

    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT32 = "FLOAT32"
    FLOAT64 = "FLOAT64"
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    BYTES = "BYTES"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"


INTEGER_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


class _NoDefault(enum.Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT = _NoDefault.NO_DEFAULT


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The shape of a value; immutable.

    Attributes:
        type: the type.
        optional: whether None is a value.
        default: the value where none is given; `NO_DEFAULT` if there is none.
        name: name of a logical type, or of a struct.
        version: version of the schema, for people.
        doc: what the value means.
        parameters: what else belongs to the schema, such as a DECIMAL's scale.
        fields: the fields of a STRUCT, in order.
        key_schema: of a MAP's keys.
        value_schema: of a MAP's values, of an ARRAY's elements.
    """

    type: Type
    optional: bool = False
    default: Any = NO_DEFAULT
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: "tuple[Field, ...]" = ()
    key_schema: "Schema | None" = None
    value_schema: "Schema | None" = None

    def __hash__(self) -> int:
        """Hash what identifies a schema in practice; the parameters and the default may not be hashable."""
        return hash(
            (self.type, self.optional, self.name, self.version, self.fields, self.key_schema, self.value_schema)
        )

    @cached_property
    def field_by_name(self) -> "Mapping[str, Field]":
        """The fields of a STRUCT by their names."""
        return {each.name: each for each in self.fields}

    @property
    def has_default(self) -> bool:
        """Whether a missing value has one to stand for it."""
        return self.default is not NO_DEFAULT

    def as_optional(self) -> "Schema":
        """Return the same schema, with None as a value."""
        return self if self.optional else replace(self, optional=True)

    def with_name(self, name: str | None, version: int | None = None) -> "Schema":
        """Return the same schema under another name and version."""
        return replace(self, name=name, version=version)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a STRUCT.

    Attributes:
        name: its name, unique in the struct.
        schema: its schema.
    """

    name: str
    schema: Schema


INT8 = Schema(type=Type.INT8)
INT16 = Schema(type=Type.INT16)
INT32 = Schema(type=Type.INT32)
INT64 = Schema(type=Type.INT64)
FLOAT32 = Schema(type=Type.FLOAT32)
FLOAT64 = Schema(type=Type.FLOAT64)
BOOLEAN = Schema(type=Type.BOOLEAN)
STRING = Schema(type=Type.STRING)
BYTES = Schema(type=Type.BYTES)
DATE = Schema(type=Type.INT32, name=DATE_NAME, version=1)
TIME = Schema(type=Type.INT32, name=TIME_NAME, version=1)
TIMESTAMP = Schema(type=Type.INT64, name=TIMESTAMP_NAME, version=1)


def decimal_schema(scale: int, *, optional: bool = False) -> Schema:
    """Return the schema of decimals with `scale` digits after the point."""
    return Schema(
        type=Type.BYTES,
        name=DECIMAL_NAME,
        version=1,
        parameters={SCALE_PARAMETER: str(scale)},
        optional=optional,
    )


def array_schema(elements: Schema, *, optional: bool = False) -> Schema:
    """Return the schema of lists of such elements."""
    return Schema(type=Type.ARRAY, value_schema=elements, optional=optional)


def map_schema(keys: Schema, values: Schema, *, optional: bool = False) -> Schema:
    """Return the schema of dictionaries of such keys and values."""
    return Schema(type=Type.MAP, key_schema=keys, value_schema=values, optional=optional)


@dataclass(slots=True)
class StructBuilder:
    """Collects the fields of a struct.

    >>> StructBuilder("flight").add("carrier", STRING).add("delay", INT32.as_optional()).build()  # doctest: +SKIP
    """

    name: str | None = None
    version: int | None = None
    doc: str | None = None
    optional: bool = False
    _fields: list[Field] = field(default_factory=list)

    def add(self, name: str, schema: Schema) -> Self:
        """Add a field; returns the builder itself."""
        assert all(each.name != name for each in self._fields), f"field {name} stands twice in the struct {self.name}"
        self._fields.append(Field(name, schema))
        return self

    def build(self) -> Schema:
        """Return the schema."""
        return Schema(
            type=Type.STRUCT,
            name=self.name,
            version=self.version,
            doc=self.doc,
            optional=self.optional,
            fields=tuple(self._fields),
        )


def struct_schema(fields: Mapping[str, Schema], *, name: str | None = None, optional: bool = False) -> Schema:
    """Return the schema of a struct with these fields, in this order."""
    return Schema(
        type=Type.STRUCT,
        name=name,
        optional=optional,
        fields=tuple(Field(each, schema) for each, schema in fields.items()),
    )


_LOGICAL_VALUES: Mapping[str, type] = {
    DECIMAL_NAME: decimal.Decimal,
    DATE_NAME: dt.date,
    TIME_NAME: dt.time,
    TIMESTAMP_NAME: dt.datetime,
}
_VALUES: Mapping[Type, type | tuple[type, ...]] = {
    Type.FLOAT32: (float, int),
    Type.FLOAT64: (float, int),
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: dict,
    Type.STRUCT: dict,
}


def check_value(schema: Schema, value: Any, where: str = "value") -> None:
    """Check that a value fits its schema, all the way down.

    Args:
        schema: the schema.
        value: the value.
        where: what the value is, for the message.

    Raises:
        DataError: it does not fit; the message says where and why.
    """
    if value is None:
        if not schema.optional and not schema.has_default:
            raise DataError(f"{where}: None, but the schema {_described(schema)} is not optional")
        return
    if schema.name is not None and schema.name in _LOGICAL_VALUES:
        expected: type | tuple[type, ...] = _LOGICAL_VALUES[schema.name]
        fits = isinstance(value, expected) and not (schema.name == DATE_NAME and isinstance(value, dt.datetime))
    elif bits := INTEGER_BITS.get(schema.type):
        fits = isinstance(value, int) and not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1
    else:
        fits = isinstance(value, _VALUES[schema.type]) and not (
            isinstance(value, bool) and schema.type is not Type.BOOLEAN
        )
    if not fits:
        raise DataError(
            f"{where}: {value!r:.80} ({type(value).__name__}) does not fit the schema {_described(schema)}"
        )
    _check_parts(schema, value, where)


def _check_parts(schema: Schema, value: Any, where: str) -> None:
    if schema.type is Type.STRUCT:
        known = schema.field_by_name
        for name in value:
            if name not in known:
                raise DataError(f"{where}: the schema {_described(schema)} has no field {name!r}")
        for each in schema.fields:
            check_value(each.schema, value.get(each.name), f"{where}.{each.name}")
    elif schema.type is Type.ARRAY and schema.value_schema is not None:
        for number, element in enumerate(value):
            check_value(schema.value_schema, element, f"{where}[{number}]")
    elif schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        for key, element in value.items():
            check_value(schema.key_schema, key, f"{where}: key")
            check_value(schema.value_schema, element, f"{where}[{key!r}]")


def _described(schema: Schema) -> str:
    return f"{schema.type} {schema.name}" if schema.name else str(schema.type)
