"""Says for each type of column which Connect type its values get, and how they are converted.

Types are SQLAlchemy's, as it finds them in a database. What has no counterpart in Connect (JSON, UUIDs, intervals,
network addresses, ranges) becomes text; PostgreSQL itself is asked to make it, because it knows how.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import types as sql
from sqlalchemy.dialects import mssql, mysql, postgresql

from ottla_sdk import Schema
from ottla_sdk import schema as connect
from ottla_sql.binary_types import BINARY_TYPES
from ottla_sql.source import values
from ottla_sql.source.config import NumericMapping, TimestampGranularity

Convert = Callable[[Any], Any]

LONG_DIGITS_MAX = 18
"""Any integer of so many digits fits INT64."""
LONG_MAX = 2**63 - 1
_INTEGERS_BY_DIGITS = ((2, connect.INT8), (4, connect.INT16), (9, connect.INT32), (LONG_DIGITS_MAX, connect.INT64))
_MICROS_SCHEMAS = {
    TimestampGranularity.CONNECT_LOGICAL: connect.TIMESTAMP,
    TimestampGranularity.MICROS_LONG: connect.INT64,
    TimestampGranularity.NANOS_LONG: connect.INT64,
}
"""Others are text."""
SINGLE_PRECISION_BITS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRules:
    """What decides about types besides the column.

    Attributes:
        dialect: SQLAlchemy's name of the database, such as ``postgresql``.
        timezone: of columns that store none.
        numeric_mapping: what becomes of NUMERIC.
        numeric_scale_default: of NUMERIC that has none.
        timestamp_granularity: what becomes of timestamps.
    """

    dialect: str
    timezone: dt.tzinfo = dt.UTC
    numeric_mapping: NumericMapping = NumericMapping.NONE
    numeric_scale_default: int = 38
    timestamp_granularity: TimestampGranularity = TimestampGranularity.CONNECT_LOGICAL


@dataclass(frozen=True, slots=True)
class ValueType:
    """What becomes of a column's values.

    Attributes:
        schema: their schema, not optional.
        convert: makes them of what the driver returns; None if they are the same.
        as_text: whether the database has to make text of them.
    """

    schema: Schema
    convert: Convert | None = None
    as_text: bool = False


def value_type(column: sql.TypeEngine[Any], rules: TypeRules) -> ValueType:
    """Return what becomes of the values of a column of this type."""
    exact = rules.dialect == "postgresql"  # its driver returns what the column says, the others only nearly
    if isinstance(column, sql.ARRAY | postgresql.ARRAY):
        return _array(column, rules)
    if isinstance(column, sql.Boolean):
        return ValueType(connect.BOOLEAN, None if exact else values.to_bool)
    if isinstance(column, sql.Float):
        return ValueType(_float(column, rules), None if exact else values.to_float)
    if isinstance(column, sql.Numeric):  # before Integer: Oracle's NUMBER is both
        return _numeric(column, rules)
    if isinstance(column, sql.Integer):
        return _integer(column, rules, None if exact else values.to_int)
    if isinstance(column, mysql.YEAR):
        return ValueType(connect.INT16, values.to_int)
    if isinstance(column, mysql.BIT):
        bits = column.length or 1
        return ValueType(connect.BOOLEAN, values.to_bool) if bits == 1 else ValueType(connect.INT64, values.to_int)
    if isinstance(column, sql.DateTime):
        convert = values.to_timestamp(rules.timezone, rules.timestamp_granularity)
        return ValueType(_MICROS_SCHEMAS.get(rules.timestamp_granularity, connect.STRING), convert)
    if isinstance(column, sql.Date):
        return ValueType(connect.DATE, None if exact else values.to_date)
    if isinstance(column, sql.Time) and not (exact and getattr(column, "timezone", False)):
        return ValueType(connect.TIME, values.to_time)
    if isinstance(column, BINARY_TYPES):
        return ValueType(connect.BYTES, values.to_bytes)
    if isinstance(column, sql.String) and not isinstance(column, sql.Enum):
        return ValueType(connect.STRING, None if exact else values.to_text)
    return ValueType(connect.STRING, None if exact else values.to_text, as_text=exact)


def _integer(column: sql.Integer, rules: TypeRules, convert: Convert | None) -> ValueType:
    unsigned = bool(getattr(column, "unsigned", False))
    if rules.dialect == "sqlite":
        return ValueType(connect.INT64, convert)
    if isinstance(column, mysql.TINYINT):
        return ValueType(connect.INT16 if unsigned else connect.INT8, convert)
    if isinstance(column, mssql.TINYINT):  # from 0 to 255
        return ValueType(connect.INT16, convert)
    if isinstance(column, sql.SmallInteger):
        return ValueType(connect.INT32 if unsigned else connect.INT16, convert)
    if isinstance(column, sql.BigInteger):
        return (
            ValueType(connect.decimal_schema(0), values.to_decimal(0))
            if unsigned
            else ValueType(connect.INT64, convert)
        )
    return ValueType(connect.INT64 if unsigned else connect.INT32, convert)


def _float(column: sql.Float[Any], rules: TypeRules) -> Schema:
    if rules.dialect == "sqlite" or isinstance(column, sql.Double):
        return connect.FLOAT64
    if isinstance(column, sql.REAL | mysql.FLOAT):
        return connect.FLOAT32
    return connect.FLOAT32 if column.precision and column.precision <= SINGLE_PRECISION_BITS else connect.FLOAT64


def _numeric(column: sql.Numeric[Any], rules: TypeRules) -> ValueType:
    """Follow Confluent's GenericDatabaseDialect; precision and scale None mean that the column has none."""
    precision, scale = column.precision, column.scale
    if precision is not None and scale is None:
        scale = 0  # the SQL standard's default
    if precision is not None and scale is not None:
        mapping = rules.numeric_mapping
        best_fit = mapping in (NumericMapping.BEST_FIT, NumericMapping.BEST_FIT_EAGER_DOUBLE)
        whole = scale <= 0 if best_fit else scale == 0 and mapping is NumericMapping.PRECISION_ONLY
        digits = precision - min(scale, 0)
        if whole and digits <= LONG_DIGITS_MAX:
            schema = next(schema for limit, schema in _INTEGERS_BY_DIGITS if digits <= limit)
            return ValueType(schema, values.to_int)
        eager = mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE
        if best_fit and scale > 0 and (eager or precision <= LONG_DIGITS_MAX):
            return ValueType(connect.FLOAT64, values.to_float)
    scale = rules.numeric_scale_default if scale is None else scale
    return ValueType(connect.decimal_schema(scale), values.to_decimal(scale))


def _array(column: Any, rules: TypeRules) -> ValueType:
    element = value_type(column.item_type, rules)
    if element.as_text:
        return element  # the whole list as text: its elements have no type that a driver would return
    convert = None if element.convert is None else values.to_list(element.convert)
    return ValueType(connect.array_schema(element.schema.as_optional()), convert)


def type_of_values(found: list[Any], scale: int, rules: TypeRules) -> sql.TypeEngine[Any]:
    """Return the type of a column of a query's result of which the database does not say it: by its values.

    Args:
        found: its values in the rows at hand, which are not null.
        scale: digits after the point that decimals may have.
        rules: what else decides.
    """
    if found and all(type(each) is int for each in found) and max(map(abs, found)) > LONG_MAX:
        return sql.Numeric(38, 0)
    for kinds, found_type in _TYPES_OF_VALUES:
        if found and all(isinstance(each, kinds) for each in found):
            return found_type
    if found and all(isinstance(each, int | float) for each in found):
        return sql.Double()
    if found and type(found[0]).__name__ == "Decimal":
        return sql.Numeric(38, scale or rules.numeric_scale_default)
    return sql.Text()


_TYPES_OF_VALUES: tuple[tuple[type, sql.TypeEngine[Any]], ...] = (
    (bool, sql.Boolean()),
    (int, sql.BigInteger()),
    (float, sql.Double()),
    (bytes, sql.LargeBinary()),
    (dt.datetime, sql.DateTime()),
    (dt.date, sql.Date()),
    (dt.time, sql.Time()),
    (dt.timedelta, sql.Time()),
)
