"""Connect types of columns, and the values that drivers return."""

import datetime as dt
import decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import types as sql
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql

from ottla_sdk import DataError
from ottla_sdk import schema as connect
from ottla_sql.source import values
from ottla_sql.source.column_types import TypeRules, value_type
from ottla_sql.source.config import NumericMapping, TimestampGranularity
from ottla_sql.source.position import InvalidPosition, Position, microseconds

DECIMAL = connect.decimal_schema


@pytest.mark.parametrize(
    ("dialect", "column", "schema"),
    [
        ("postgresql", sql.SMALLINT(), connect.INT16),
        ("postgresql", sql.INTEGER(), connect.INT32),
        ("postgresql", sql.BIGINT(), connect.INT64),
        ("postgresql", sql.REAL(), connect.FLOAT32),
        ("postgresql", sql.DOUBLE_PRECISION(), connect.FLOAT64),
        ("postgresql", sql.NUMERIC(10, 2), DECIMAL(2)),
        ("postgresql", sql.NUMERIC(10), DECIMAL(0)),
        ("postgresql", sql.NUMERIC(), DECIMAL(38)),
        ("postgresql", postgresql.BYTEA(), connect.BYTES),
        ("postgresql", postgresql.TIMESTAMP(timezone=True), connect.TIMESTAMP),
        ("postgresql", sql.DATE(), connect.DATE),
        ("postgresql", postgresql.TIME(), connect.TIME),
        ("postgresql", postgresql.UUID(), connect.STRING),
        ("postgresql", postgresql.JSONB(), connect.STRING),
        ("postgresql", postgresql.ENUM("a", name="e"), connect.STRING),
        ("postgresql", postgresql.ARRAY(sql.INTEGER()), connect.array_schema(connect.INT32.as_optional())),
        ("postgresql", sql.NullType(), connect.STRING),
        ("sqlite", sql.INTEGER(), connect.INT64),
        ("sqlite", sql.REAL(), connect.FLOAT64),
        ("mysql", mysql.TINYINT(), connect.INT8),
        ("mysql", mysql.TINYINT(unsigned=True), connect.INT16),
        ("mysql", mysql.INTEGER(unsigned=True), connect.INT64),
        ("mysql", mysql.BIGINT(unsigned=True), DECIMAL(0)),
        ("mysql", mysql.FLOAT(), connect.FLOAT32),
        ("mysql", mysql.DOUBLE(), connect.FLOAT64),
        ("mysql", mysql.BIT(1), connect.BOOLEAN),
        ("mysql", mysql.LONGBLOB(), connect.BYTES),
        ("mysql", mysql.YEAR(), connect.INT16),
        ("mssql", mssql.TINYINT(), connect.INT16),
        ("mssql", mssql.BIT(), connect.BOOLEAN),
        ("oracle", oracle.NUMBER(10, 0), DECIMAL(0)),
        ("oracle", oracle.DATE(), connect.TIMESTAMP),
    ],
)
def test_columns_get_the_connect_type_that_holds_all_their_values(dialect, column, schema):
    assert value_type(column, TypeRules(dialect=dialect)).schema == schema


@pytest.mark.parametrize(
    ("mapping", "column", "schema"),
    [
        (NumericMapping.NONE, (5, 0), DECIMAL(0)),
        (NumericMapping.PRECISION_ONLY, (2, 0), connect.INT8),
        (NumericMapping.PRECISION_ONLY, (4, 0), connect.INT16),
        (NumericMapping.PRECISION_ONLY, (9, 0), connect.INT32),
        (NumericMapping.PRECISION_ONLY, (18, 0), connect.INT64),
        (NumericMapping.PRECISION_ONLY, (19, 0), DECIMAL(0)),
        (NumericMapping.PRECISION_ONLY, (5, 2), DECIMAL(2)),
        (NumericMapping.BEST_FIT, (9, 0), connect.INT32),
        (NumericMapping.BEST_FIT, (9, 2), connect.FLOAT64),
        (NumericMapping.BEST_FIT, (20, 2), DECIMAL(2)),
        (NumericMapping.BEST_FIT, (2, -3), connect.INT32),
        (NumericMapping.BEST_FIT_EAGER_DOUBLE, (20, 2), connect.FLOAT64),
        (NumericMapping.BEST_FIT_EAGER_DOUBLE, (20, 0), DECIMAL(0)),
    ],
)
def test_numeric_columns_are_mapped_as_the_setting_says(mapping, column, schema):
    rules = TypeRules(dialect="postgresql", numeric_mapping=mapping)
    assert value_type(sql.NUMERIC(*column), rules).schema == schema


def test_decimals_keep_every_digit_or_fail():
    assert values.to_decimal(2)(decimal.Decimal("1.5")).as_tuple().exponent == -2
    assert values.to_decimal(2)(0.1) == decimal.Decimal("0.10")
    assert values.to_decimal(3)("12.345") == decimal.Decimal("12.345")
    for wrong in (decimal.Decimal("0.001"), decimal.Decimal("NaN"), "much"):
        with pytest.raises(DataError):
            values.to_decimal(2)(wrong)


def test_times_without_a_zone_are_in_that_of_the_database():
    convert = values.to_utc(ZoneInfo("Europe/Berlin"))
    expected = dt.datetime(2013, 7, 1, 10, tzinfo=dt.UTC)
    assert convert(dt.datetime(2013, 7, 1, 12)) == expected  # noqa: DTZ001
    assert convert("2013-07-01 12:00:00") == expected
    assert convert("2013-07-01 12:00:00+02:00") == expected
    assert convert(expected) is expected


@pytest.mark.parametrize(
    ("granularity", "expected"),
    [
        (TimestampGranularity.CONNECT_LOGICAL, dt.datetime(2013, 1, 1, 0, 0, 0, 123000, dt.UTC)),
        (TimestampGranularity.MICROS_LONG, 1356998400123456),
        (TimestampGranularity.MICROS_STRING, "1356998400123456"),
        (TimestampGranularity.MICROS_ISO, "2013-01-01T00:00:00.123456"),
        (TimestampGranularity.NANOS_LONG, 1356998400123456000),
        (TimestampGranularity.NANOS_STRING, "1356998400123456000"),
        (TimestampGranularity.NANOS_ISO, "2013-01-01T00:00:00.123456000"),
    ],
)
def test_timestamps_come_as_the_setting_says(granularity, expected):
    rules = TypeRules(dialect="postgresql", timestamp_granularity=granularity)
    found = value_type(sql.TIMESTAMP(), rules)
    value = found.convert(dt.datetime(2013, 1, 1, 0, 0, 0, 123456, dt.UTC))
    assert value == expected
    connect.check_value(found.schema, value)


def test_times_of_day_come_from_text_and_from_mysqls_durations():
    assert values.to_time("10:11:12.345678") == dt.time(10, 11, 12, 345000)
    assert values.to_time(dt.timedelta(hours=1, microseconds=1999)) == dt.time(1, 0, 0, 1000)
    for wrong in (dt.timedelta(hours=25), "soon", 5):
        with pytest.raises(DataError):
            values.to_time(wrong)


def test_whatever_sqlite_has_stored_is_checked():
    assert values.to_int(5.0) == 5
    assert values.to_bool(1) is True
    assert values.to_text({"ä": 1}) == '{"ä": 1}'
    for convert, wrong in (
        (values.to_int, "x"),
        (values.to_float, "x"),
        (values.to_bool, "x"),
        (values.to_bytes, 5),
        (values.to_date, "yesterday"),
    ):
        with pytest.raises(DataError):
            convert(wrong)


@given(st.none() | st.integers(), st.none() | st.integers(-(10**16), 10**16))
def test_positions_survive_the_way_through_offsets(number, timestamp_us):
    position = Position(number, timestamp_us)
    assert Position.from_offset(position.to_offset()) == position


@given(st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC)))  # noqa: DTZ001
def test_times_survive_the_way_through_positions(time):
    assert Position(None, microseconds(time)).timestamp == time


def test_offsets_of_others_are_refused():
    assert Position.from_offset({}) == Position()
    assert Position.from_offset({"timestamp": 5}) == Position(None, 5000)
    for wrong in ({"incrementing": "1"}, {"timestamp": True}, {"timestamp": 1, "timestamp_nanos": 10**9}):
        with pytest.raises(InvalidPosition):
            Position.from_offset(wrong)
