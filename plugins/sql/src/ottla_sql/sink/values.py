"""Turns the values of records into what a column of a database takes.

What a value becomes is decided by the column, and by the schema if there is one: most need nothing, and then no
function is called. Without schemas, values are what JSON can say, so a column of timestamps may get text or numbers;
numbers count as Connect counts them, in milliseconds since the epoch, days since 1970-01-01, milliseconds since
midnight.
"""

import base64
import binascii
import datetime as dt
import decimal
import json
from collections.abc import Callable
from typing import Any

from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql, postgresql

from ottla_sdk import DataError, Schema, Type
from ottla_sdk.logical_types import days_to_date, ms_to_time, ms_to_timestamp
from ottla_sql.binary_types import BINARY_TYPES

Convert = Callable[[Any], Any]

_NUMBERS = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64})


Conversion = tuple[Convert | None, frozenset[type]]
"""A function, and the types of values that need not go through it; None if none needs to."""

_NOTHING: Conversion = (None, frozenset())


def value_conversion(
    column: sql.TypeEngine[Any], schema: Schema | None, dialect: str, timezone: dt.tzinfo
) -> Conversion:
    """Return what makes of values what the database takes.

    The function does not take None, and raises `DataError` for a value that the column cannot hold.

    Args:
        column: the column's type.
        schema: the schema of the values; None if they have none.
        dialect: SQLAlchemy's name of the database.
        timezone: of columns that store none.
    """
    if isinstance(column, sql.ARRAY | postgresql.ARRAY):
        return _to_array(column, schema, dialect, timezone), _fit()
    if isinstance(column, sql.JSON):
        return _to_json, _fit()
    if isinstance(column, sql.Boolean):
        return _NOTHING if _is(schema, Type.BOOLEAN) else (_to_bool, _fit(bool))
    if isinstance(column, mysql.BIT | mysql.YEAR):
        return _to_int, _fit(int)
    if isinstance(column, sql.Float):
        return _NOTHING if _is_number(schema) else (_to_float, _fit(float, int))
    if isinstance(column, sql.Numeric):
        if _is_number(schema):
            return _NOTHING
        return (_to_sqlite_decimal, _fit(int)) if dialect == "sqlite" else (_to_decimal, _fit(int, decimal.Decimal))
    if isinstance(column, sql.Integer):
        return _NOTHING if _is_number(schema) else (_to_int, _fit(int))
    if isinstance(column, sql.DateTime):
        return _datetime_conversion(bool(getattr(column, "timezone", False)), dialect, timezone), _fit()
    if isinstance(column, sql.Date):
        return (_as_text(_to_date), _fit()) if dialect == "sqlite" else (_to_date, _fit(dt.date))
    if isinstance(column, sql.Time):
        return (_as_text(_to_time), _fit()) if dialect == "sqlite" else (_to_time, _fit(dt.time))
    if isinstance(column, BINARY_TYPES):
        return _NOTHING if _is(schema, Type.BYTES) else (_to_bytes, _fit(bytes))
    # Text, and all types that are written as text: UUIDs, enumerations, network addresses, intervals.
    return _NOTHING if _is(schema, Type.STRING) else (_to_text, _fit(str))


def _fit(*kinds: type) -> frozenset[type]:
    return frozenset({*kinds, type(None)})


def _is_number(schema: Schema | None) -> bool:
    return schema is not None and schema.name is None and schema.type in _NUMBERS


def _is(schema: Schema | None, kind: Type) -> bool:
    return schema is not None and schema.name is None and schema.type is kind


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise DataError(f"{value!r:.80} is neither true nor false")


def _to_int(value: Any) -> int:
    if isinstance(value, int):
        return int(value)
    try:
        whole = int(value)
        if isinstance(value, str) or whole == value:
            return whole
    except (ValueError, TypeError, ArithmeticError):
        pass
    raise DataError(f"{value!r:.80} is no whole number")


def _to_float(value: Any) -> float:
    try:
        if isinstance(value, int | float | str | decimal.Decimal):
            return float(value)
    except (ValueError, ArithmeticError):
        pass
    raise DataError(f"{value!r:.80} is no number")


def _to_decimal(value: Any) -> decimal.Decimal:
    try:
        if isinstance(value, decimal.Decimal):
            return value
        if isinstance(value, int | float | str):
            return decimal.Decimal(str(value) if isinstance(value, float) else value)
    except (ValueError, ArithmeticError):
        pass
    raise DataError(f"{value!r:.80} is no number")


def _to_sqlite_decimal(value: Any) -> str:
    # As text, of which SQLite makes a number; of more than about 15 digits it would lose some if it were a float.
    number = _to_decimal(value)
    if not number.is_finite():
        raise DataError(f"SQLite has no {number}")
    return format(number, "f")


def _datetime_conversion(keeps_zone: bool, dialect: str, timezone: dt.tzinfo) -> Convert:
    if dialect == "sqlite":
        return _datetime_text(timezone)
    if keeps_zone:
        return _to_datetime
    return lambda value: (
        value.replace(tzinfo=None)
        if timezone is dt.UTC and type(value) is dt.datetime and value.tzinfo is dt.UTC
        else _to_datetime(value).astimezone(timezone).replace(tzinfo=None)
    )


def _datetime_text(timezone: dt.tzinfo) -> Convert:
    """Return what writes times as SQLAlchemy does for SQLite."""
    size = len("YYYY-MM-DD HH:MM:SS.ffffff")
    if timezone is dt.UTC:
        return lambda value: (
            value if type(value) is dt.datetime and value.tzinfo is dt.UTC else _to_datetime(value).astimezone(dt.UTC)
        ).isoformat(" ", "microseconds")[:size]
    return lambda value: _to_datetime(value).astimezone(timezone).isoformat(" ", "microseconds")[:size]


def _to_datetime(value: Any) -> dt.datetime:
    if isinstance(value, int) and not isinstance(value, bool):
        return ms_to_timestamp(value)
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            raise DataError(f"{value!r:.80} is no timestamp") from None
    if isinstance(value, dt.datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    raise DataError(f"{value!r:.80} is no timestamp")


def _to_date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return days_to_date(value)
    if isinstance(value, str):
        try:
            return dt.datetime.fromisoformat(value).date()
        except ValueError:
            pass
    raise DataError(f"{value!r:.80} is no date")


def _to_time(value: Any) -> dt.time:
    if isinstance(value, dt.time):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return ms_to_time(value)
    if isinstance(value, str):
        try:
            return dt.time.fromisoformat(value)
        except ValueError:
            pass
    raise DataError(f"{value!r:.80} is no time of day")


def _as_text(convert: Callable[[Any], dt.date | dt.time]) -> Convert:
    return lambda value: convert(value).isoformat()


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            pass
    raise DataError(f"{value!r:.80} is neither bytes nor base64")


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise DataError(f"{value!r:.80} is no text") from None
    if isinstance(value, dict | list | tuple):
        return _dumped(value)
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def _to_json(value: Any) -> str:
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return _dumped(value)
        return value
    return _dumped(value)


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"no JSON can be made of {value!r:.80}: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not of JSON")


def _to_array(column: Any, schema: Schema | None, dialect: str, timezone: dt.tzinfo) -> Convert:
    elements = schema.value_schema if schema is not None and schema.type is Type.ARRAY else None
    element, _ = value_conversion(column.item_type, elements, dialect, timezone)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise DataError(f"{value!r:.80} is no list")
        return [
            None if each is None else convert(each) if isinstance(each, list) else element(each) if element else each
            for each in value
        ]

    return convert
