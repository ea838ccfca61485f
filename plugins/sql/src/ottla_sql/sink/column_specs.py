"""Which columns a sink creates: the SQL types for Connect's schemas, and for values that have none."""

import datetime as dt
import decimal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql, postgresql

from ottla_sdk import Schema, Type
from ottla_sdk import schema as connect
from ottla_sdk.logical_types import scale_of

DECIMAL_DIGITS = 38
"""Of columns for decimals, where a precision must be given; MySQL's most is 65, others' 38."""
KEY_TEXT_LENGTH = 255
"""Of text in a primary key, where the database wants a length."""
FRACTION_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """What is known of a column that may have to be created.

    Attributes:
        name: its name.
        schema: the schema of its values; None if they have none.
        sample: a value, if there is no schema; None if there was none either.
    """

    name: str
    schema: Schema | None
    sample: Any = None

    @property
    def may_be_null(self) -> bool:
        """Whether None may come."""
        return self.schema is None or self.schema.optional or self.schema.has_default

    @property
    def default(self) -> Any:
        """The default for the column; None if there is none, or none that could be written in SQL."""
        if self.schema is None or not self.schema.has_default:
            return None
        plain = isinstance(self.schema.default, str | int | float | bool) and self.schema.name is None
        return self.schema.default if plain else None


def sql_type(spec: ColumnSpec, dialect: str, *, in_key: bool) -> sql.TypeEngine[Any]:
    """Return the type with which a column is created.

    Args:
        spec: the column.
        dialect: SQLAlchemy's name of the database.
        in_key: whether it is part of the primary key.
    """
    found = _of_value(spec.sample, dialect) if spec.schema is None else _of_schema(spec.schema, dialect)
    if in_key and isinstance(found, sql.Text) and dialect not in ("postgresql", "sqlite"):
        return sql.String(KEY_TEXT_LENGTH)
    return found


_PLAIN: Mapping[Type, sql.TypeEngine[Any]] = {
    Type.INT8: sql.SmallInteger(),
    Type.INT16: sql.SmallInteger(),
    Type.INT32: sql.Integer(),
    Type.INT64: sql.BigInteger(),
    Type.FLOAT32: sql.REAL(),
    Type.FLOAT64: sql.Double(),
    Type.BOOLEAN: sql.Boolean(),
    Type.STRING: sql.Text(),
    Type.BYTES: sql.LargeBinary(),
}


def _of_schema(schema: Schema, dialect: str) -> sql.TypeEngine[Any]:
    if schema.name == connect.DECIMAL_NAME:
        return _decimal(scale_of(schema), dialect)
    if schema.name == connect.DATE_NAME:
        return sql.Date()
    if schema.name == connect.TIME_NAME:
        return mysql.TIME(fsp=FRACTION_DIGITS) if dialect in ("mysql", "mariadb") else sql.Time()
    if schema.name == connect.TIMESTAMP_NAME:
        return _timestamp(dialect)
    if schema.type is Type.FLOAT32 and dialect in ("mysql", "mariadb"):
        return mysql.FLOAT()  # its REAL has 64 bits
    if schema.type is Type.BYTES and dialect in ("mysql", "mariadb"):
        return mysql.LONGBLOB()
    if schema.type in _PLAIN:
        return _PLAIN[schema.type]
    elements = schema.value_schema
    if dialect == "postgresql" and schema.type is Type.ARRAY and elements is not None and elements.type in _PLAIN:
        return postgresql.ARRAY(_of_schema(elements, dialect))
    return _json(dialect)


def _of_value(value: Any, dialect: str) -> sql.TypeEngine[Any]:
    for kinds, found in _TYPES_OF_VALUES:
        if isinstance(value, kinds):
            return found
    if isinstance(value, decimal.Decimal):
        return _decimal(max(0, -int(value.as_tuple().exponent)) if value.is_finite() else 0, dialect)
    if isinstance(value, dt.datetime):
        return _timestamp(dialect)
    if isinstance(value, dt.date):
        return sql.Date()
    return _json(dialect) if isinstance(value, dict | list | tuple) else sql.Text()


_TYPES_OF_VALUES: tuple[tuple[type | tuple[type, ...], sql.TypeEngine[Any]], ...] = (
    (bool, sql.Boolean()),
    (int, sql.BigInteger()),
    (float, sql.Double()),
    (str, sql.Text()),
    ((bytes, bytearray, memoryview), sql.LargeBinary()),
    (dt.time, sql.Time()),
)


def _decimal(scale: int, dialect: str) -> sql.TypeEngine[Any]:
    # PostgreSQL's NUMERIC without precision keeps every digit of each value.
    return sql.Numeric() if dialect == "postgresql" else sql.Numeric(max(DECIMAL_DIGITS, scale), max(scale, 0))


def _timestamp(dialect: str) -> sql.TypeEngine[Any]:
    return mysql.DATETIME(fsp=FRACTION_DIGITS) if dialect in ("mysql", "mariadb") else sql.DateTime()


def _json(dialect: str) -> sql.TypeEngine[Any]:
    if dialect == "postgresql":
        return postgresql.JSONB()
    return sql.JSON() if dialect in ("mysql", "mariadb", "sqlite") else sql.Text()
